import CUnixSocket
import Foundation
import Glibc
import TestSupport
import Testing
import TrafficCapture
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficInbox

/// The daemon's end of `report.sock`, on real sockets.
@Suite("The inbox of reports")
struct ReportInboxTests {
    /// An inbox at work, and a socket that sends to it.
    private final class Fixture {
        let path = FileManager.default.temporaryDirectory.appending(path: "inbox-\(UUID().uuidString.prefix(8))").path
        let inbox: ReportInbox
        private let sender: CInt
        private let thread: Thread
        private let done = DispatchSemaphore(value: 0)

        init() throws {
            let inbox = try ReportInbox(bindingAt: self.path)
            let done = self.done
            self.inbox = inbox
            // Every user may send.
            chmod(self.path, 0o666)
            self.sender = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            self.thread = Thread {
                inbox.run()
                done.signal()
            }
            self.thread.start()
        }

        deinit {
            self.inbox.stop()
            self.done.wait()
            close(self.sender)
            unlink(self.path)
        }

        /// Blocks where the queue is full.
        func send(_ bytes: [UInt8]) -> Bool {
            unix_socket_send(self.sender, bytes, bytes.count, 0, self.path) == bytes.count
        }

        /// Waits until the inbox has read all that this fixture sent, and so has decided which of it has room. It may still
        /// be about to store the last.
        func awaitReading() {
            let left = blockingLook(until: { $0 == 0 }) {
                var unread: CInt = 1
                _ = ioctl(self.sender, UInt(TIOCOUTQ), &unread)
                return unread
            }
            #expect(left == 0)
        }

        /// Takes reports until `isEnough`.
        func take(until isEnough: ([ReceivedReport], UInt64) -> Bool) -> (reports: [ReceivedReport], dropped: UInt64) {
            var (all, dropped) = ([ReceivedReport](), UInt64(0))
            return blockingLook(until: { isEnough($0.0, $0.1) }) {
                let (reports, lost) = self.inbox.take()
                all += reports
                dropped = lost
                return (all, dropped)
            }
        }
    }

    @Test("every datagram comes once, in order, with its sender's pid and start time")
    func senders() throws {
        let fixture = try Fixture()
        for index in 0..<500 { #expect(fixture.send(Array("report \(index)".utf8))) }
        let own = fixture.take { reports, _ in reports.count >= 500 }.reports
        #expect(own.map { String(decoding: $0.datagram, as: UTF8.self) } == (0..<500).map { "report \($0)" })
        let ticks = ProcessDirectory.startTicks(pid: getpid())
        #expect(own.allSatisfy { $0.pid == getpid() && $0.uid == getuid() && $0.startTicks == ticks })

        let script =
            "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'from a child', sys.argv[1])"
        let pid = try Tool.wait(for: "python3", ["-c", script, fixture.path]).pid
        let others = fixture.take { reports, _ in !reports.isEmpty }.reports
        #expect(others.map(\.pid) == [pid])
        #expect(others.first?.datagram == Array("from a child".utf8))
    }

    @Test("a datagram that is too long is cut one byte beyond the limit, and an empty datagram passes")
    func lengths() throws {
        let fixture = try Fixture()
        #expect(fixture.send([UInt8](repeating: 7, count: 60_000)))
        #expect(fixture.send([]))
        #expect(fixture.send([UInt8](repeating: 8, count: 49_152)))
        let reports = fixture.take { reports, _ in reports.count == 3 }.reports
        #expect(reports.map(\.datagram.count) == [49_153, 0, 49_152])
    }

    @Test("a flood that is not taken is bounded, is counted, and asks for a round of its own")
    func flood() throws {
        let fixture = try Fixture()
        let bytes = [UInt8](repeating: 1, count: 49_152)
        for _ in 0..<400 { #expect(fixture.send(bytes)) }
        var event = pollfd(fd: fixture.inbox.filledDescriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&event, 1, 10_000) == 1)
        // Nothing is taken before the last datagram has come: only datagrams that found room are waiting then.
        #expect(fixture.send(Array("last".utf8)))
        fixture.awaitReading()
        let (reports, dropped) = fixture.take { $0.count + Int($1) == 401 }
        // As many large datagrams wait as a process has room for, and the small one after them.
        let room = ReportLimits.waitingBytes.process / (bytes.count + ReportLimits.overheadOfDatagram)
        #expect(reports.count { $0.datagram == bytes } == room && dropped == UInt64(400 - room))
        #expect(reports.last?.datagram == Array("last".utf8))
        // Now there is room again.
        #expect(fixture.send(Array("again".utf8)))
        #expect(fixture.take { reports, _ in !reports.isEmpty }.reports.map(\.datagram) == [Array("again".utf8)])
    }

    @Test("a flood beyond one user's share loses only that user's datagrams")
    func users() throws {
        let fixture = try Fixture()
        // Four processes of another user send more than four users together may have waiting.
        let script = """
            import os, socket, sys
            os.setgid(65534)
            os.setuid(65534)
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            for _ in range(400): sender.sendto(bytes(49152), sys.argv[1])
            """
        let flooders = try (0..<4).map { _ in try Tool.start(["python3", "-c", script, fixture.path]) }
        #expect(flooders.map { Tool.end(of: $0) } == [0, 0, 0, 0])
        let bytes = [UInt8](repeating: 1, count: 49_152)
        let size = bytes.count + ReportLimits.overheadOfDatagram
        for _ in 0..<100 { #expect(fixture.send(bytes)) }
        fixture.awaitReading()
        let (reports, dropped) = fixture.take { $0.count + Int($1) == 1_700 }
        let others = Dictionary(grouping: reports.filter { $0.pid != getpid() }, by: \.pid)
        #expect(reports.count - others.values.reduce(0) { $0 + $1.count } == 100)
        #expect(others.values.allSatisfy { $0.count <= ReportLimits.waitingBytes.process / size })
        #expect(others.values.reduce(0) { $0 + $1.count } == ReportLimits.waitingBytes.user / size)
        #expect(dropped == UInt64(1_600 - ReportLimits.waitingBytes.user / size))
    }

    @Test(
        "the kernel queues more for the daemon than for others, whatever the host's setting",
        .enabled(if: geteuid() == 0)
    )
    func queue() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "inbox-\(UUID().uuidString.prefix(8))").path
        defer { unlink(path) }
        let home = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self/ns/net")
        let inbox = try ReportInbox(bindingAt: path)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self/ns/net") == home)
        // The inbox does not run, so the kernel has to queue all datagrams.
        let script = """
            import socket, sys
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender.setblocking(False)
            for _ in range(250): sender.sendto(b"x", sys.argv[1])
            """
        try Tool.wait(for: "python3", ["-c", script, path])
        #expect(inbox.take().reports.isEmpty)
    }

    @Test("rounds for reports come ten times a second at most, and pause half as long as the last one took")
    func rate() throws {
        let fixture = try Fixture()
        let stopper = try Stopper()
        // Every reading advances the clock by 5 ms.
        var now: UInt64 = 1_000_000_000
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: stopper,
            reportsDescriptor: fixture.inbox.filledDescriptor,
            interval: .seconds(600)
        ) {
            now += 5_000_000
            return now
        }
        var rounds: [UInt64] = []
        for took in [0, 0, 30, 400, 0] as [UInt64] {
            // 60 datagrams are enough for a round; every round has twice as many.
            for _ in 0..<2 {
                for _ in 0..<60 { #expect(fixture.send([UInt8](repeating: 1, count: 49_152))) }
            }
            #expect(pace.next() == .collect)
            rounds.append(now)
            #expect(fixture.take { reports, _ in reports.count == 120 }.reports.count == 120)
            now += took * 1_000_000
        }
        let gaps = zip(rounds.dropFirst(), rounds).map { ($0 - $1) / 1_000_000 }
        // The clock goes in steps.
        #expect(zip(gaps, [100, 100, 100, 600]).allSatisfy { $0 >= $1 && $0 <= $1 + 25 }, "\(gaps)")
        stopper.stop()
        #expect(pace.next() == .stop)
    }

    @Test("an inbox that fills up asks once for a round of its own")
    func pace() throws {
        let fixture = try Fixture()
        let stopper = try Stopper()
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: stopper,
            reportsDescriptor: fixture.inbox.filledDescriptor,
            interval: .seconds(600)
        )
        #expect(fixture.send([1]))
        for _ in 0..<60 { #expect(fixture.send([UInt8](repeating: 1, count: 49_152))) }
        // The next sweep is due in ten minutes, so only the full inbox can cause a round now.
        #expect(pace.next() == .collect)
        let (reports, _) = fixture.take { reports, _ in reports.count == 61 }
        #expect(reports.count == 61)
        stopper.stop()
        #expect(pace.next() == .stop)
    }

    @Test("a path that is in use or too long is an error")
    func paths() throws {
        let fixture = try Fixture()
        #expect(throws: CaptureError.self) { try ReportInbox(bindingAt: fixture.path) }
        #expect(throws: CaptureError.self) { try ReportInbox(bindingAt: "/tmp/" + String(repeating: "x", count: 200)) }
    }
}
