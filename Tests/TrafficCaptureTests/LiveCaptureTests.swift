import Foundation
import Glibc
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

/// The capture method with BPF programs that this kernel accepts, or why it accepts none.
enum LiveMethod {
    static let probed: (method: CaptureMethod?, reason: String) = {
        var reasons: [String] = []
        for method in [CaptureMethod.fexit, .tracepoint] {
            do {
                _ = try BPFCapture(method: method)
                return (method, "")
            } catch {
                reasons.append("\(method.rawValue): \(error)")
            }
        }
        return (nil, reasons.joined(separator: "; "))
    }()

    static var isAvailable: Bool { self.probed.method != nil }
}

@Suite(
    "Live capture",
    .serialized,
    .enabled(if: LiveMethod.isAvailable, "\(LiveMethod.probed.reason)")
)
struct LiveCaptureTests {
    let method = LiveMethod.probed.method ?? .tracepoint

    static func python(
        _ program: String
    ) throws -> (process: Foundation.Process, input: Pipe, output: Pipe) {
        let process = Foundation.Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", program]
        let (input, output) = try Program.start(process)
        return (process, input, output)
    }

    /// Programs, maps, links and iterators that this process holds; other suites open other things meanwhile.
    static func openBPFDescriptors() -> Int {
        ProcessDirectory.entries("/proc/self/fd").filter { linkTarget("/proc/self/fd/\($0)")?.contains("bpf") ?? false }
            .count
    }

    @Test("with a full ring the bytes of closed sockets count for their process, and none is lost")
    func fullRing() throws {
        let capture = try BPFCapture(method: self.method, ringBytes: 4096, mapElements: 64)
        var ledger = Ledger()
        var cookies: Set<UInt64> = []
        for count in 1..<200 {
            let pair = try SocketPair()
            cookies.formUnion(pair.cookies)
            try pair.transfer(count)
        }
        // This pair closes after the first sweep's walk: its rows get only what the walk has not reported.
        var lastPair: SocketPair? = try SocketPair()
        let lastCookies = lastPair?.cookies ?? []
        cookies.formUnion(lastCookies)
        try lastPair?.transfer(200)
        // The ring was not drained, and one user's part of 4 KiB is less than two records. TCP destroys a
        // socket when the last FIN is acknowledged, and on a busy machine that is after the first sweep, too.
        var recorded = LatestRecords()
        var rows: [FoldedRows.Row] = []
        var loss = CaptureLoss()
        // The loop compares bytes: other suites of this process close sockets, too, and rows do not tell them apart.
        let counted = {
            cookies.compactMap { recorded[$0]?.ownedPayload }.reduce(PayloadBytes(), +)
                + rows.reduce(PayloadBytes()) { $0 + $1.owner.payload }
        }
        let all = try blockingLook(until: { !$0.isBehind(PayloadBytes(sent: 20_100, received: 20_100)) }) {
            () -> PayloadBytes in
            try capture.sweep { event in
                ledger.absorb(event)
                if case .loss(let seen) = event { loss = seen }
                if case .rows(let folded) = event {
                    rows += folded.processes.filter { $0.owner.identity.pid == getpid() }
                }
                // A record has a socket's totals, and a row what no record has.
                recorded.absorb(event)
                // Closes the pair, now that the walk has reported it.
                if case .socket(let socket) = event, lastCookies.contains(socket.cookie.rawValue) { lastPair = nil }
            }
            return counted()
        }
        // At least this test's bytes are counted.
        #expect(!all.isBehind(PayloadBytes(sent: 20_100, received: 20_100)))
        #expect(loss.socketsFolded > 300)
        // Such small maps have no room for shared sockets of other tests' programs. This test shares none.
        loss.mapFull = 0
        #expect(!loss.isLossy)
        let snapshot = ledger.tick(capture).snapshot
        let own = snapshot.processes?.first { $0.identity.pid == getpid() }
        #expect((own?.bytes.payload.sent ?? 0) >= 20_100)
    }

    @Test("frames of an AF_PACKET socket that closes before a sweep are counted, with a full ring too")
    func frames() async throws {
        let capture = try BPFCapture(method: self.method, ringBytes: 4096, mapElements: 64)
        let program = """
            import os, socket
            frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
            print(os.getpid(), sum(frames.sendto(b"x" * 100, ("lo", 0x88b5)) for _ in range(50)))
            """
        let (sender, _, output) = try Self.python(program)
        let words = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self).split(
            separator: " "
        )
        sender.waitUntilExit()
        let pid = try #require(words.first.flatMap { Int32($0) })
        #expect(words.last?.contains("5000") == true)
        var ledger = Ledger()
        let sent = try blockingLook(until: { $0 == 5_000 }) { () -> UInt64? in
            try capture.sweep { ledger.absorb($0) }
            return ledger.tick(capture).snapshot.processes?.first { $0.identity.pid == pid }?.bytes.payload.sent
        }
        #expect(sent == 5_000)
    }

    // Each frame leaves a record in the ring of every daemon.
    @Test("each frame counts for its AF_PACKET socket, also while a sweep copies that socket", SocketFlood.floods)
    func framesDuringSweeps() throws {
        // A quarter of the ring, one user's part, has room for all records between two drains.
        let capture = try BPFCapture(method: self.method, ringBytes: 64 << 20)
        let program = """
            import os, socket, sys
            frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
            print(os.getpid(), sum(frames.sendto(b"x" * 100, ("lo", 0x88b5)) for _ in range(20_000)), flush=True)
            sys.stdin.read()
            """
        let (sender, input, output) = try Self.python(program)
        defer {
            try? input.fileHandleForWriting.close()
            sender.waitUntilExit()
        }
        let pid = sender.processIdentifier
        var sent: UInt64 = 0
        let all = try blockingLook(every: .zero, until: { $0 >= 2_000_000 }) { () -> UInt64 in
            try capture.sweep { event in
                guard case .socket(let socket) = event, socket.transport == .packet else { return }
                sent = max(sent, socket.owners.reduce(0) { $1.identity.pid == pid ? $0 + $1.payload.sent : $0 })
            }
            return sent
        }
        #expect(all == 2_000_000)
        let words = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).split(separator: " ")
        #expect(words == ["\(pid)", "2000000\n"])
    }

    @Test("a third process's bytes stay counted while only a blocked call holds the socket, which the sweep can't see")
    func ownerOfUnheldSocket() throws {
        let capture = try BPFCapture(method: self.method, refusing: [BPFPrograms.sweep])
        var ledger = Ledger()
        // Two processes take the owners' slots of the socket. No program sees the end of an AF_PACKET socket, so there is no
        // slot for a third, and its bytes are in its row. Then it waits in recv() and has no descriptor left.
        let program = """
            import os, socket, sys, threading
            shared = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x88b6))
            shared.bind(("lo", 0x88b6))
            shared.sendto(b"1" * 10, ("lo", 0x88b5))
            for last in (False, True):
                if child := os.fork():
                    if last: os.close(shared.fileno())
                    os.waitpid(child, 0)
                    continue
                shared.sendto(b"2" * 10, ("lo", 0x88b5))
                if not last: os._exit(0)
                other = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
                other.sendto(b"3" * 50, ("lo", 0x88b6))
                received = [len(shared.recv(100))]
                waiting = threading.Thread(target=lambda: received.append(len(shared.recv(100))))
                waiting.start()
                while "skb" not in open(f"/proc/self/task/{waiting.native_id}/wchan").read(): pass
                os.close(shared.fileno())
                print(os.getpid(), flush=True)
                sys.stdin.readline()
                other.sendto(b"4" * 50, ("lo", 0x88b6))
                waiting.join()
                print(sum(received), flush=True)
                sys.stdin.readline()
                os._exit(0)
            """
        let (sharer, input, output) = try Self.python(program)
        defer {
            try? input.fileHandleForWriting.close()
            sharer.waitUntilExit()
        }
        let pid = try #require(Int32(output.nextLine()))
        for _ in 0..<3 * CaptureEvent.censusesUntilClosed { try capture.sweep { ledger.absorb($0) } }
        try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
        let sum = try output.nextLine()
        #expect(sum == "100")
        for _ in 0..<3 { try capture.sweep { ledger.absorb($0) } }
        let snapshot = ledger.tick(capture).snapshot
        let payload = snapshot.processes?.first { $0.identity.pid == pid }?.bytes.payload
        #expect(payload == PayloadBytes(sent: 110, received: 100))
        #expect(snapshot.capture.loss.countersBackwards == 0)
    }

    @Test("sockets that no process holds are swept too: not accepted yet, and in flight over SCM_RIGHTS")
    func unheldSockets() throws {
        let capture = try BPFCapture(method: self.method, refusing: [BPFPrograms.sweep])
        let program = """
            import socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            client.send(b"123")
            flying = [socket.create_connection(listener.getsockname()), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
            flying[0].send(b"x" * 40)
            flying[1].sendto(b"x" * 50, listener.getsockname())
            ports = [one.getsockname()[1] for one in [client] + flying]
            left, right = socket.socketpair()
            socket.send_fds(left, [b"x"], [one.fileno() for one in flying])
            for one in flying: one.close()
            print(*ports, flush=True)
            sys.stdin.read()
            """
        let (holder, input, output) = try Self.python(program)
        defer {
            try? input.fileHandleForWriting.close()
            holder.waitUntilExit()
        }
        let line = try output.nextLine()
        let ports = line.split(separator: " ").compactMap { UInt16($0) }
        try #require(ports.count == 3, "\(line)")
        // No sweep saw these sockets while the process held them: this is the first one.
        var sockets: [SocketObservation] = []
        let areFound = try blockingLook(until: { $0 == [true, true, true] }) {
            try capture.sweep { if case .socket(let socket) = $0 { sockets.append(socket) } }
            return [
                sockets.contains { $0.remote.port == ports[0] && $0.role == .server && $0.stream?.received == 3 },
                sockets.contains { $0.local.port == ports[1] && $0.owners.first?.payload.sent == 40 },
                sockets.contains { $0.local.port == ports[2] && $0.owners.first?.payload.sent == 50 },
            ]
        }
        #expect(areFound == [true, true, true])
    }

    @Test("starting and stopping leaves no descriptor behind")
    func descriptors() throws {
        let before = Self.openBPFDescriptors()
        for _ in 0..<5 {
            let capture = try BPFCapture(method: self.method)
            try capture.sweep { _ in }
            #expect(Self.openBPFDescriptors() > before + 20)
        }
        #expect(Self.openBPFDescriptors() == before)
    }

    @Test("a socket older than the capture counts from the capture's start on, and is marked as older")
    func baseline() throws {
        let pair = try SocketPair()
        try pair.transfer(5_000)
        let capture = try BPFCapture(method: self.method)
        try pair.transfer(321)
        let seen = try capture.look()
        let ends = try pair.cookies.map { try #require(seen[$0]) }
        #expect(ends.map(\.preexisting) == [true, true])
        // Another test may just have forked. Until that test's child runs its own program, the child holds these
        // sockets, too, and every process that holds a socket at the start is an owner of the socket.
        let used = ends.map { $0.owners.filter { $0.payload != PayloadBytes() } }
        #expect(used[0].map(\.payload) == [PayloadBytes(sent: 321)])
        #expect(used[1].map(\.payload) == [PayloadBytes(received: 321)])
        #expect(used.joined().allSatisfy { $0.identity.pid == getpid() })
    }

    @Test(
        "sockets that end while a capture begins are no loss of it",
        SocketFlood.floods,
        arguments: [CaptureMethod.lifecycle, nil]
    )
    func endsAtTheStart(method: CaptureMethod?) throws {
        // Some of these connections end after the programs are attached and before each older socket has its storage.
        let program = """
            import collections, select, socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            def connection():
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                client.send(b"x")
                server.recv(1)
                return client, server
            connections = collections.deque(connection() for _ in range(300))
            print("ready", flush=True)
            while not select.select([sys.stdin], [], [], 0.001)[0]:
                for end in connections.popleft(): end.close()
                connections.append(connection())
            """
        let (process, input, output) = try Self.python(program)
        defer {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        #expect(try output.nextLine() == "ready")
        let capture = try BPFCapture(method: method ?? self.method)
        try capture.sweep { _ in }
        #expect(capture.status.loss.mapFull == 0)
    }

    @Test("bytes that are unread at the capture's start count when they are received")
    func unreadAtStart() throws {
        let pair = try SocketPair()
        let bytes = [UInt8](repeating: 1, count: 1_000)
        #expect(send(pair.client.descriptor, bytes, 1_000, 0) == 1_000)
        let capture = try BPFCapture(method: self.method)
        var buffer = bytes
        #expect(recv(pair.server.descriptor, &buffer, 1_000, Int32(MSG_WAITALL)) == 1_000)
        #expect(try capture.last(pair.cookies[1])?.ownedPayload.received == 1_000)
    }

    /// Tests both kinds of sweep, whichever this kernel would use.
    @Test("the sweep reports a socket again only when the socket changed", arguments: [false, true])
    func quietSweep(ofHeldSockets: Bool) throws {
        let pair = try SocketPair()
        let capture = try BPFCapture(method: self.method, refusing: ofHeldSockets ? [BPFPrograms.sweep] : [])
        #expect(capture.status.blindSpots.contains { $0.contains("sweep_sockets") } || !ofHeldSockets)
        let ours = pair.cookies
        for total: UInt64 in [10, 11] {
            try pair.transfer(total == 10 ? 10 : 1)
            try pair.settle()
            let news = try capture.look()
            #expect(ours.map { news[$0]?.ownedPayload.total } == [total, total])
            #expect(try capture.look().byCookie.keys.filter(ours.contains).isEmpty)
        }
    }

    @Test("a sweep of held sockets reports a socket once, however many descriptors it has")
    func manyDescriptors() throws {
        let pair = try SocketPair()
        try pair.transfer(10)
        let copies = try (0..<20).map { _ in OwnedCopy(try check("dup") { dup(pair.client.descriptor) }) }
        let capture = try BPFCapture(method: self.method, refusing: [BPFPrograms.sweep])
        let ours = pair.cookies
        var records: [UInt64: Int] = [:]
        // The first sweep reports every socket that it comes to, changed or not.
        try capture.sweep { event in
            if case .socket(let socket) = event { records[socket.cookie.rawValue, default: 0] += 1 }
        }
        #expect(ours.map { records[$0] } == [1, 1])
        withExtendedLifetime(copies) {}
    }

    /// A descriptor that an array can hold.
    private final class OwnedCopy {
        private let descriptor: Int32
        init(_ descriptor: Int32) { self.descriptor = descriptor }
        deinit { close(self.descriptor) }
    }

    @Test("the poll method counts the same bytes as the BPF programs", arguments: [1, 100, 70_000], [false, true])
    func methodsAgree(count: Int, ofHeldSockets: Bool) throws {
        let poll = try PollCapture()
        let capture = try BPFCapture(method: self.method, refusing: ofHeldSockets ? [BPFPrograms.sweep] : [])
        try poll.sweep { _ in }
        let pair = try SocketPair()
        try pair.transfer(count)
        var polled: [UInt64: PayloadBytes] = [:]
        try poll.sweep { if case .socket(let socket) = $0 { polled[socket.cookie.rawValue] = socket.ownedPayload } }
        let counted = try capture.look()
        for cookie in pair.cookies {
            #expect(counted[cookie]?.ownedPayload.total == UInt64(count))
            #expect(counted[cookie]?.ownedPayload == polled[cookie])
        }
    }

    @Test("a stopped pace stops at once, and an idle one sweeps")
    func pace() throws {
        let stopper = try Stopper()
        let pace = try CapturePace(wakeDescriptor: nil, stopper: stopper, interval: .milliseconds(20))
        #expect(pace.next() == .sweep)
        stopper.stop()
        #expect(pace.next() == .stop)
    }

    @Test("one reading of the clock from the far future does not stop the sweeps")
    func paceAfterGlitch() throws {
        let stopper = try Stopper()
        var readings = [0, 1 << 60]
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: stopper,
            interval: .milliseconds(20),
            clock: { readings.isEmpty ? MonotonicClock.nanoseconds() : UInt64(readings.removeFirst()) }
        )
        #expect(pace.next() == .sweep)
        // A pace that believed the reading would sleep for 36 years, and the test would not end.
        #expect(pace.next() == .sweep)
    }
}

extension Pipe {
    /// Waits for a line of a program. A program may write it in pieces.
    func nextLine() throws -> String {
        var line = Data()
        while let byte = try self.fileHandleForReading.read(upToCount: 1), byte != Data([10]) { line += byte }
        return String(decoding: line, as: UTF8.self)
    }
}
