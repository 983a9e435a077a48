import CTrafficABI
import Foundation
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficLimits
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// What one user's sockets do costs no other user. Every daemon on the machine counts these sockets, and says what it
    /// could not list of them.
    @Suite("Payers", SocketFlood.floods)
    struct PayerTests {
        private let method = LiveMethod.probed.method ?? .tracepoint

        @Test("the kernel side and the daemon have the same payers")
        func blocks() {
            let size = TRAFFIC_IDS_OF_BLOCK.rawValue
            #expect(PayingUser(size - 1).uid == size - 1 && PayingUser(size).uid == nil)
            #expect(PayingUser(size) == PayingUser(2 * size - 1) && PayingUser(size) != PayingUser(2 * size))
        }

        /// A user with a range of subordinate ids fills what the kernel side has room for, with a process of each id. Then
        /// a stranger's connection closes.
        @Test("a user's subordinate ids cost a stranger no record and no name, and have one row")
        func subordinateIDs() throws {
            let capture = try BPFCapture(method: self.method, ringBytes: 32_768, mapElements: 64)
            var (ledger, folded, listed) = (Ledger(), [FoldedRows](), Set<UInt32>())
            let sweep = {
                try capture.sweep { event in
                    if case .rows(let rows) = event { folded.append(rows) }
                    if case .socket(let socket) = event { listed.formUnion(socket.owners.map(\.uid)) }
                    ledger.absorb(event)
                }
            }
            try sweep()
            (folded, listed) = ([], [])
            // More ids than there are rows of users, in both generations.
            let first = 2 * TRAFFIC_IDS_OF_BLOCK.rawValue
            let (ids, stranger) = (Int(TRAFFIC_USER_ROWS.rawValue) + 50, UInt32(54_324))
            let program = """
                import os, socket
                def connection(uid):
                    child = os.fork()
                    if child == 0:
                        os.setgroups([])
                        os.setgid(uid)
                        os.setuid(uid)
                        listener = socket.socket()
                        listener.bind(("127.0.0.1", 0))
                        listener.listen(1)
                        client = socket.socket()
                        client.connect(listener.getsockname())
                        server, _ = listener.accept()
                        assert client.send(b"x" * 100) == 100 and len(server.recv(100, socket.MSG_WAITALL)) == 100
                        os._exit(0)
                    assert os.waitpid(child, 0)[1] == 0
                    return child
                for uid in range(\(first), \(first) + \(ids)): connection(uid)
                print(connection(\(stranger)))
                """
            let (process, _, output) = try LiveCaptureTests.python(program)
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            let pid = try #require(Int32(text.trimmingCharacters(in: .whitespacesAndNewlines)), "\(text)")
            let moved = UInt64(ids + 1) * 100
            var row: ProcessUsage?
            let counted = try blockingLook(until: { $0 == moved }) { () -> UInt64 in
                try sweep()
                let snapshot = ledger.tick(capture).snapshot
                // The process has ended, and leaves the list after some minutes.
                row = row ?? snapshot.processes?.first { $0.identity.pid == pid }
                let rows =
                    (snapshot.processes ?? []).map { ($0.details.uid, $0.bytes) }
                    + (snapshot.exited ?? []).map { ($0.group.uid ?? first, $0.bytes) }
                return rows.reduce(0) { $0 + ($1.0 == stranger || $1.0 >= first ? $1.1.payload.sent : 0) }
            }
            #expect(counted == moved)
            #expect(folded.allSatisfy { $0.common == nil })
            let payers = Set(folded.flatMap(\.users).map(\.owner.uid).filter { $0 >= TRAFFIC_IDS_OF_BLOCK.rawValue })
            #expect(payers == [first])
            #expect(listed.contains(stranger))
            #expect(row?.bytes.payload == PayloadBytes(sent: 100, received: 100) && row?.details.uid == stranger)
        }

        /// A socket without storage makes each receive of its payer's sockets dearer. Which receives are dearer shows only
        /// in what the kernel side notes of the payers. With datagrams, because every daemon on the machine says that it
        /// can lose bytes of TCP sockets without storage, also those of other tests.
        @Test("sockets that take no storage are counted, and make only their own user's receives dearer")
        func failedStorage() throws {
            let capture = try BPFCapture(method: self.method)
            var (ledger, listed) = (Ledger(), Set<UInt32>())
            let (poor, stranger) = (UInt32(54_325), UInt32(54_326))
            // In the network namespace of the first process a socket may take no memory for what is attached to it.
            let program = """
                import ctypes, fcntl, os, socket, struct, sys
                def connection(uid, is_poor):
                    ready, said = os.pipe()
                    child = os.fork()
                    if child == 0:
                        if is_poor:
                            assert ctypes.CDLL(None).unshare(0x40000000) == 0  # CLONE_NEWNET
                            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any:
                                fcntl.ioctl(any, 0x8914, struct.pack("16sH14x", b"lo", 1))
                            try:
                                with open("/proc/sys/net/core/optmem_max", "w") as most: most.write("1")
                            except OSError:
                                    os.write(said, b"n")
                                    os._exit(0)
                        os.setgroups([])
                        os.setgid(uid)
                        os.setuid(uid)
                        receiver, sender = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                        receiver.bind(("127.0.0.1", 0))
                        for _ in range(3):
                            assert sender.sendto(bytes(100), receiver.getsockname()) == 100
                            assert len(receiver.recv(200)) == 100
                        os.write(said, b"x")
                        sys.stdin.read()
                        os._exit(0)
                    os.close(said)
                    return {b"x": child, b"n": 0}[os.read(ready, 1)]
                print(connection(\(poor), True), connection(\(stranger), False), flush=True)
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            let pids = try output.nextLine().split(separator: " ").compactMap { Int32($0) }
            try #require(pids.count == 2 && pids[1] != 0)
            if pids[0] == 0 { try Test.cancel("this kernel has no limit of optional memory for a network namespace") }
            let moved = PayloadBytes(sent: 300, received: 300)
            let counted = try blockingLook(until: { $0 == [moved, moved] }) { () -> [PayloadBytes?] in
                try capture.sweep { event in
                    if case .socket(let socket) = event { listed.formUnion(socket.owners.map(\.uid)) }
                    ledger.absorb(event)
                }
                let processes = ledger.tick(capture).snapshot.processes ?? []
                return pids.map { pid in processes.first { $0.identity.pid == pid }?.bytes.payload }
            }
            #expect(counted == [moved, moved])
            #expect(listed.contains(stranger) && !listed.contains(poor))
            let payers = try capture.kernel.map("payers")
            let failed = try [poor, stranger].map { uid in
                try payers.value(at: uid % TRAFFIC_USERS_TOLD_APART.rawValue, as: traffic_payer.self).storage_failed
            }
            #expect(failed == [1, 0])
        }
    }
}
