import Foundation
import Glibc
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficLimits
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// Where a program may miss the end of a TCP socket, the socket leaves its totals when its last file is gone
    /// (`bpf/closing.bpf.h`).
    @Suite("Totals when the last file is gone")
    struct UnseenEndTests {
        let method = LiveMethod.probed.method ?? .tracepoint

        @Test("connections between two sweeps whose ends no program sees are counted, with a full ring too")
        func fullRing() throws {
            // The ring has room for six records.
            let capture = try BPFCapture(method: self.method, ringBytes: 4096, leavingOut: ["tcp_destroy"])
            var cookies: [UInt64] = []
            for count in 1...100 {
                let pair = try SocketPair()
                cookies += pair.cookies
                try pair.transfer(count)
            }
            var recorded = LatestRecords()
            let counted = { cookies.compactMap { recorded[$0]?.ownedPayload }.reduce(PayloadBytes(), +) }
            // If a walk was just writing a record of a socket when its file went, a later sweep lists the socket.
            _ = try blockingLook(until: { $0 == PayloadBytes(sent: 5_050, received: 5_050) }) {
                try capture.sweep { recorded.absorb($0) }
                return counted()
            }
            #expect(counted() == PayloadBytes(sent: 5_050, received: 5_050))
            let isOpen = cookies.map { recorded[$0].map { $0.closedBoottimeNanoseconds == nil } }
            #expect(isOpen.allSatisfy { $0 == true })
        }

        /// Three processes use the sockets before a sweep and two after it. Then the sockets leave their totals twice,
        /// unless no program sees the end. A ring of one page has no room for any record of a shared socket.
        @Test(
            "the totals of sockets of five processes count once, with a full ring too",
            arguments: ["tcp_destroy", "process_executed"],
            [4_096, 4 << 20] as [UInt32]
        )
        func shared(leftOut: String, ringBytes: UInt32) throws {
            let capture = try BPFCapture(method: self.method, ringBytes: ringBytes, leavingOut: [leftOut])
            let program = """
                import os, socket, sys
                listener = socket.create_server(("127.0.0.1", 0))
                pairs = []
                for _ in range(20):
                    client = socket.create_connection(listener.getsockname())
                    pairs.append((client, listener.accept()[0]))
                def user(size):
                    pid = os.fork()
                    if pid == 0:
                        for client, server in pairs:
                            assert client.send(bytes(size)) == len(server.recv(size, socket.MSG_WAITALL)) == size
                        os._exit(0)
                    assert os.waitpid(pid, 0)[1] == 0
                    return pid
                pids = [user(size) for size in (1, 2, 3)]
                print(flush=True)
                sys.stdin.readline()
                pids += [user(size) for size in (4, 5)]
                for pair in pairs:
                    for end in pair: end.close()
                print(*pids, flush=True)
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            var ledger = Ledger()
            _ = try output.nextLine()
            try capture.sweep { ledger.absorb($0) }
            try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
            let pids = try output.nextLine().split(separator: " ").compactMap { Int32($0) }
            try #require(pids.count == 5)
            let whole: [PayloadBytes?] = (1...5 as ClosedRange<UInt64>).map { number in
                PayloadBytes(sent: 20 * number, received: 20 * number)
            }
            let payload = { () throws -> [PayloadBytes?] in
                try capture.sweep { ledger.absorb($0) }
                let processes = ledger.tick(capture).snapshot.processes ?? []
                return pids.map { pid in processes.first { $0.identity.pid == pid }?.bytes.payload }
            }
            _ = try blockingLook(until: { $0 == whole }, payload)
            // What counts twice may come later.
            for _ in 1...3 { #expect(try payload() == whole) }
        }

        /// Final records from the map behind the ring wait for what such a drain leaves.
        @Test("a drain of the ring that leaves records says so")
        func stoppedDrain() throws {
            let capture = try BPFCapture(method: self.method)
            let ring = try RingReader(map: capture.kernel.map("closed"))
            // Each pair leaves two records or more, and each drain takes one.
            let isWhole = try blockingLook(until: { !$0 }) {
                try SocketPair().transfer(1)
                return ring.drain(limit: 1) { _ in }
            }
            #expect(!isWhole)
            #expect(blockingLook(until: \.self) { ring.drain(limit: .max) { _ in } })
        }

        @Test(
            "such totals count once beside those of the end, also if the ledger forgets closed sockets at once",
            SocketFlood.floods,
            arguments: [false, true]
        )
        func once(ofHeldSockets: Bool) throws {
            let rounds = 100
            let program = """
                import socket, sys
                listener = socket.create_server(("127.0.0.1", 0), backlog=64)
                print("ready", flush=True)
                sys.stdin.readline()
                for round in range(\(rounds)):
                    pairs = []
                    for _ in range(20):
                        client = socket.create_connection(listener.getsockname())
                        server, _ = listener.accept()
                        client.sendall(bytes(100))
                        received = 0
                        while received < 100: received += len(server.recv(100))
                        pairs.append((client, server))
                    for client, server in pairs:
                        server.close()
                        client.close()
                print("done", flush=True)
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            #expect(try output.nextLine() == "ready")
            // A capture that leaves any program out, or that has no sweep of all sockets, has sockets leave their totals.
            let capture = try BPFCapture(
                method: self.method,
                ringBytes: 16_384,
                leavingOut: ofHeldSockets ? [] : ["process_executed"],
                refusing: ofHeldSockets ? [BPFPrograms.sweep] : []
            )
            var retention = Ledger.Retention()
            retention.closedSocketLimit = Ledger.Retention.Limit(1, inAll: 1)
            var ledger = Ledger(retention: retention)
            try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
            var answer = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while poll(&answer, 1, 0) == 0 {
                try capture.drain { ledger.absorb($0) }
                try capture.sweep { ledger.absorb($0) }
            }
            #expect(try output.nextLine() == "done")
            let pid = process.processIdentifier
            let whole = PayloadBytes(sent: UInt64(rounds) * 2_000, received: UInt64(rounds) * 2_000)
            let payload = { () throws -> PayloadBytes in
                try capture.sweep { ledger.absorb($0) }
                let own = ledger.tick(capture).snapshot.processes?.first { $0.identity.pid == pid }
                return own?.bytes.payload ?? PayloadBytes()
            }
            _ = try blockingLook(until: { !$0.isBehind(whole) }, payload)
            // What counts twice may come later.
            for _ in 1...3 { #expect(try payload() == whole) }
        }
    }
}
