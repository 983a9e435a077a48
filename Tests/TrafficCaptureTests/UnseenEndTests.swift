import Foundation
import Glibc
import TestSupport
import Testing
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// TCP sockets leave their totals when their last file is gone, because their end may go unseen (`bpf/ends.bpf.h`).
    @Suite("Unseen ends")
    struct UnseenEndTests {
        let method = LiveMethod.probed.method ?? .tracepoint

        @Test("connections between two sweeps whose ends no program sees are counted, with a full ring too")
        func fullRing() throws {
            let capture = try BPFCapture(method: self.method, ringBytes: 4096, leavingOut: ["tcp_destroy"])
            var cookies: [UInt64] = []
            for count in 1...100 {
                let pair = try SocketPair()
                cookies += pair.cookies
                try pair.transfer(count)
            }
            // A sweep may lag behind other tests' sockets, which fill this user's part of the ring, too.
            var recorded = LatestRecords()
            let counted = { cookies.compactMap { recorded[$0]?.ownedPayload }.reduce(PayloadBytes(), +) }
            let all = PayloadBytes(sent: 5_050, received: 5_050)
            for _ in 1...100 where counted() != all { try capture.sweep { recorded.absorb($0) } }
            #expect(counted() == all)
            #expect(cookies.allSatisfy { recorded[$0]?.closedBoottimeNanoseconds == nil })
        }

        @Test("what a socket left at its release counts once, also if the ledger forgets closed sockets at once")
        func once() throws {
            let rounds = 2_000
            let program = """
                import socket, sys
                listener = socket.create_server(("127.0.0.1", 0), backlog=64)
                print("ready", flush=True)
                sys.stdin.readline()
                for round in range(\(rounds) // 20):
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
            // Without this program the capture takes every end for one that may go unseen.
            let capture = try BPFCapture(method: self.method, ringBytes: 16_384, leavingOut: ["process_executed"])
            var retention = Ledger.Retention()
            retention.closedSocketLimit = Ledger.Retention.Limit(1, inAll: 1)
            var ledger = Ledger(retention: retention)
            var copies = 0
            let see = { (event: CaptureEvent) in
                if case .socket(let socket) = event, socket.closedBoottimeNanoseconds == nil { copies += 1 }
                ledger.absorb(event)
            }
            try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
            var answer = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while poll(&answer, 1, 0) == 0 {
                try capture.drain(see)
                try capture.sweep(see)
            }
            #expect(try output.nextLine() == "done")
            let pid = process.processIdentifier
            let all = UInt64(rounds * 100)
            let whole = PayloadBytes(sent: all, received: all)
            let payload = try blockingLook(until: { !$0.isBehind(whole) }) {
                try capture.sweep(see)
                let own = ledger.tick(capture).snapshot.processes?.first { $0.identity.pid == pid }
                return own?.bytes.payload ?? PayloadBytes()
            }
            #expect(payload == whole)
            #expect(copies > 0)
        }
    }
}
