import CTrafficABI
import Foundation
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// What closing sockets leave where there is little room (bpf/closing.bpf.h).
    @Suite("Closing sockets", SocketFlood.floods)
    struct ClosingTests {
        private let method = LiveMethod.probed.method ?? .tracepoint

        /// Opens connections as a user of its own, and obeys a line for each step.
        private struct Connections {
            private let process: Foundation.Process
            private let input: Pipe
            private let output: Pipe

            init(_ count: Int, asUser uid: UInt32) throws {
                let program = """
                    import os, socket, sys
                    os.setgroups([])
                    os.setgid(\(uid))
                    os.setuid(\(uid))
                    pairs = []
                    with socket.create_server(("127.0.0.1", 0), backlog=\(count)) as listener:
                        for _ in range(\(count)):
                            client = socket.create_connection(listener.getsockname())
                            pairs.append((client, listener.accept()[0]))
                    for line in sys.stdin:
                        step = int(line)
                        for client, server in pairs:
                            if step:
                                client.sendall(bytes(step))
                                assert len(server.recv(step, socket.MSG_WAITALL)) == step
                            else:
                                client.close()
                                server.close()
                        print(step, flush=True)
                    """
                (self.process, self.input, self.output) = try LiveCaptureTests.python(program)
            }

            /// - Parameter bytes: How many each client sends to its server; 0: all close.
            func step(_ bytes: Int) throws {
                try self.input.fileHandleForWriting.write(contentsOf: Data("\(bytes)\n".utf8))
                try #require(try self.output.nextLine() == "\(bytes)")
            }

            func end() {
                try? self.input.fileHandleForWriting.close()
                self.process.waitUntilExit()
            }
        }

        /// What records and rows have of one network namespace and one user, to whom nobody else belongs.
        private struct Counted {
            let networkNamespace: UInt32
            let uid: UInt32
            var records = LatestRecords()
            var rows: [FoldedRows.Row] = []

            mutating func absorb(_ event: CaptureEvent) {
                self.records.absorb(event)
                guard case .rows(let folded) = event else { return }
                self.rows += (folded.processes + folded.users).filter { $0.owner.uid == self.uid }
            }

            private var own: [SocketObservation] {
                self.records.byCookie.values.filter { $0.networkNamespace == self.networkNamespace }
            }

            var ofRecords: PayloadBytes { self.own.reduce(PayloadBytes()) { $0 + $1.ownedPayload + $1.unowned } }

            /// Sockets with payload that have their last record.
            var ended: Int {
                self.own.count { $0.closedBoottimeNanoseconds != nil && ($0.ownedPayload + $0.unowned).total > 0 }
            }

            var socketsOfRows: Int { self.rows.reduce(0) { $0 + Int($1.sockets) } }

            var ofRows: PayloadBytes { self.rows.reduce(PayloadBytes()) { $0 + $1.owner.payload } }
        }

        @Test("a user fills one part of the map behind the ring, and what exceeds it is in rows")
        func partOfDeferred() throws {
            let elements: UInt32 = 64
            let (count, uid) = (100, UInt32(54_331))
            let capture = try BPFCapture(method: self.method, ringBytes: 4_096, deferredElements: elements)
            _ = try OwnNamespace.run {
                let connections = try Connections(count, asUser: uid)
                defer { connections.end() }
                let inode = ProcessDirectory.networkNamespace(task: "thread-self") ?? 0
                var counted = Counted(networkNamespace: inode, uid: uid)
                let moved = PayloadBytes(sent: UInt64(count) * 1_500, received: UInt64(count) * 1_500)
                try connections.step(1_000)
                // Sockets with a record may fill the larger part: half of what those may that need a record.
                let isRecorded = try blockingLook(until: \.self) { () -> Bool in
                    try capture.sweep { counted.absorb($0) }
                    return counted.ofRecords == PayloadBytes(sent: moved.sent / 3 * 2, received: moved.received / 3 * 2)
                }
                try #require(isRecorded)
                try connections.step(500)
                try connections.step(0)
                let open = blockingLook(until: { $0 == 0 }) { OwnNamespace.openSockets() }
                try #require(open == 0)
                let payers = try capture.kernel.map("payers")
                let filled = try payers.value(
                    at: uid % TRAFFIC_USERS_TOLD_APART.rawValue,
                    as: traffic_payer.self
                ).deferred
                // A socket that a walk is just looking at takes a place in any case: one for each processor.
                let part = elements / TRAFFIC_PARTS.rawValue / 2
                #expect((part...part + UInt32(ProcessInfo.processInfo.processorCount)).contains(filled), "\(filled)")
                let isWhole = try blockingLook(until: \.self) { () -> Bool in
                    try capture.sweep { counted.absorb($0) }
                    return !(counted.ofRecords + counted.ofRows).isBehind(moved)
                }
                #expect(isWhole && counted.ofRecords + counted.ofRows == moved)
                #expect(counted.ofRows.sent > 0)
                // Each socket has a last record, or is counted in a row.
                #expect(counted.socketsOfRows > 0 && counted.ended + counted.socketsOfRows == 2 * count)
            }
        }

        /// TCP's own counters, of which derived wire bytes are made, began with the connection.
        @Test("rows have no wire bytes from before the capture")
        func rowsOfOldSockets() throws {
            let (count, uid) = (60, UInt32(54_333))
            _ = try OwnNamespace.run {
                let connections = try Connections(count, asUser: uid)
                defer { connections.end() }
                let inode = ProcessDirectory.networkNamespace(task: "thread-self") ?? 0
                try connections.step(100_000)
                let capture = try BPFCapture(
                    method: self.method,
                    ringBytes: 4_096,
                    deferredElements: 64,
                    wire: .derived
                )
                var counted = Counted(networkNamespace: inode, uid: uid)
                // No sweep before the end: the record of one would have those bytes, too.
                try connections.step(500)
                try connections.step(0)
                let open = blockingLook(until: { $0 == 0 }) { OwnNamespace.openSockets() }
                try #require(open == 0)
                let moved = PayloadBytes(sent: UInt64(count) * 500, received: UInt64(count) * 500)
                let isWhole = try blockingLook(until: \.self) { () -> Bool in
                    try capture.sweep { counted.absorb($0) }
                    return !(counted.ofRecords + counted.ofRows).isBehind(moved)
                }
                #expect(isWhole && counted.ofRecords + counted.ofRows == moved)
                let wire = counted.rows.reduce(UInt64(0)) { $0 + $1.wire.sent + $1.wire.received }
                let payload = counted.ofRows.sent + counted.ofRows.received
                // Each socket sent a few segments more, and none was full.
                #expect(payload > 0 && (payload..<3 * payload).contains(wire), "\(wire) of \(payload)")
            }
        }

        /// `lifecycle` learns late which process has a socket, so what moved before that is of no process.
        @Test("what a record has, also of no process, does not count again in a row")
        func rowsAfterRecords() throws {
            let (count, uid) = (40, UInt32(54_332))
            let capture = try BPFCapture(method: .lifecycle, ringBytes: 4_096, mapElements: 64)
            _ = try OwnNamespace.run {
                let connections = try Connections(count, asUser: uid)
                defer { connections.end() }
                let inode = ProcessDirectory.networkNamespace(task: "thread-self") ?? 0
                var counted = Counted(networkNamespace: inode, uid: uid)
                try connections.step(1_000)
                let first = PayloadBytes(sent: UInt64(count) * 1_000, received: UInt64(count) * 1_000)
                let isRecorded = try blockingLook(until: \.self) { () -> Bool in
                    try capture.sweep { counted.absorb($0) }
                    return counted.ofRecords == first
                }
                try #require(isRecorded)
                try connections.step(500)
                try connections.step(0)
                let open = blockingLook(until: { $0 == 0 }) { OwnNamespace.openSockets() }
                try #require(open == 0)
                let moved = PayloadBytes(sent: first.sent / 2 * 3, received: first.received / 2 * 3)
                let isWhole = try blockingLook(until: \.self) { () -> Bool in
                    try capture.sweep { counted.absorb($0) }
                    return !capture.status.awaitsRows && !(counted.ofRecords + counted.ofRows).isBehind(moved)
                }
                #expect(isWhole && counted.ofRecords + counted.ofRows == moved)
                #expect(counted.ofRows.sent > 0)
            }
        }
    }
}
