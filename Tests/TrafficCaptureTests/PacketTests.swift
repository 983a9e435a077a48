import CLinux
import Foundation
import Glibc
import GroundTruth
import TestSupport
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    @Suite("Packets", .serialized)
    struct PacketTests {
        let method = LiveMethod.probed.method ?? .tracepoint

        @Test(
            "a refused packet program costs only the packet counts, and a blind spot names the program",
            arguments: [
                "packet_sent", "socket_create",
            ]
        )
        func refusedPacketProgram(_ program: String) throws {
            let capture = try BPFCapture(method: self.method, refusing: [program])
            #expect(capture.status.method == self.method)
            #expect(capture.status.blindSpots.contains { $0.hasPrefix("packets:") && $0.contains(program) })
            #expect(!capture.status.hooks.contains { $0.hasPrefix("cgroup_skb") || $0.contains("net_dev") })
            let pair = try SocketPair()
            try pair.transfer(100_000)
            let seen = try capture.last(pair.cookies[0])
            #expect(seen?.owners.map(\.payload.sent) == [100_000])
            #expect(seen?.wire?.quality == .derived)
            #expect((seen?.wire?.sent.total ?? 0) > 100_000)
        }

        @Test("a refused interface program costs only the packets of no socket, and a blind spot names the program")
        func refusedInterfaceProgram() throws {
            let capture = try BPFCapture(method: self.method, refusing: ["interface_received"])
            let blindSpots = capture.status.blindSpots
            #expect(blindSpots.contains { $0.hasPrefix("packets of no socket:") && $0.contains("interface_received") })
            #expect(!capture.status.hooks.contains { $0.contains("net_dev") || $0.contains("netif") })
            let pair = try SocketPair()
            try pair.transfer(100_000)
            #expect(try capture.last(pair.cookies[0])?.wire?.quality == .exact)
        }

        @Test("without programs at interfaces, the sockets' wire bytes are still all that passed, and no row has more")
        func socketsOnly() throws {
            let capture = try BPFCapture(method: self.method, wire: .exact)
            #expect(!capture.status.hooks.contains { $0.contains("net_dev") || $0.contains("netif") })
            #expect(capture.status.blindSpots.contains { $0.contains("--wire audited") })
            let (networkNamespace, outcome) = try OwnNamespace.run {
                let own = try #require(ProcessDirectory.networkNamespace(task: "thread-self"))
                let start = OwnNamespace.loopbackCounters()
                let pair = try SocketPair()
                for _ in 0..<200 { try pair.transfer(10_000) }
                try pair.settle()
                var latest = LatestRecords()
                let passed = try Self.sweepAtRest(capture) { event in
                    if case .packets = event { Issue.record("packets of interfaces") }
                    latest.absorb(event)
                }
                let wire = latest.byCookie.values.filter { $0.networkNamespace == own }.compactMap(\.wire)
                return (
                    sent: wire.reduce(0) { $0 + $1.sent.total }, received: wire.reduce(0) { $0 + $1.received.total },
                    passed: passed.bytes - start.bytes
                )
            }
            #expect(networkNamespace != 0 && outcome.passed > 2_000_000)
            #expect(outcome.sent == outcome.passed && outcome.received == outcome.passed)
        }

        @Test("a capture method whose essential program is refused is refused, and the error names the program")
        func refusedEssential() {
            let error = #expect(throws: CaptureError.self) {
                try BPFCapture(method: self.method, refusing: ["tcp_receive"])
            }
            guard case .unsupported(let feature, let reason) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(feature == "method \(self.method.rawValue)")
            #expect(reason.contains("tcp_receive"))
        }

        @Test("the program for the last bytes of datagram sockets is optional, and a blind spot names it")
        func refusedRelease() throws {
            let capture = try BPFCapture(method: self.method, refusing: ["socket_release"])
            #expect(
                capture.status.blindSpots.contains { $0.contains("the last bytes") && $0.contains("socket_release") }
            )
            #expect(capture.status.hooks.contains { $0.hasPrefix("cgroup_skb/egress") })
        }

        @Test(
            "with a ring of 4 KiB, maps of 64 elements and few rows nothing is lost, neither of calls nor of packets",
            arguments: [64, 1]
        )
        func smallMaps(rowElements: UInt32) throws {
            let capture = try BPFCapture(
                method: self.method,
                ringBytes: 4096,
                mapElements: 64,
                rowElements: rowElements
            )
            var ledger = Ledger()
            // Other tests and other processes move bytes meanwhile: this test's bytes are those of this namespace. Rows
            // have no namespace, so the bytes are of a process and a user of their own.
            let uid = UInt32(54_328)
            let program = """
                # Another user may not be allowed to read Python's files, so what sockets need is read before.
                import encodings.idna, os, socket
                os.setgroups([])
                os.setgid(\(uid))
                os.setuid(\(uid))
                for count in range(1, 401):
                    with socket.create_server(("127.0.0.1", 0)) as listener:
                        with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                            client.sendall(bytes(count))
                            assert len(server.recv(count, socket.MSG_WAITALL)) == count
                """
            let (networkNamespace, pid) = try OwnNamespace.run {
                let pid = try Tool.wait(for: "python3", ["-c", program]).pid
                // TCP ends some sockets after the process.
                let open = blockingLook(until: { $0 == 0 }) { OwnNamespace.openSockets() }
                try #require(open == 0)
                return pid
            }
            let bytes = UInt64((1...400).reduce(0, +))
            var seen: InterfacePackets?
            var (recorded, rows) = (LatestRecords(), [FoldedRows.Row]())
            let counted = { () -> (payload: PayloadBytes, wire: WireTotals) in
                let records = recorded.byCookie.values.filter { $0.networkNamespace == networkNamespace }
                let payload = records.map { $0.ownedPayload + $0.unowned } + rows.map(\.owner.payload)
                let wire = records.compactMap(\.wire?.total) + rows.map(\.wire)
                return (payload.reduce(PayloadBytes(), +), wire.reduce(WireTotals(), +))
            }
            let isWhole = { () -> Bool in
                guard let seen else { return false }
                let counted = counted()
                return counted.payload.sent >= bytes && counted.payload.received >= bytes
                    && counted.wire.sent + seen.sent.noSocket >= seen.sent.ip
                    && counted.wire.received + seen.ofNoSocket.received >= seen.received.ip
            }
            // A sweep leaves rows to the next one while a program may be adding to them. Otherwise few sweeps, because
            // each brings bytes of others in the rest.
            var sweeps = 0
            let isDone = try blockingLook(every: .zero, until: \.self) { () -> Bool in
                sweeps += 1
                try capture.sweep { event in
                    ledger.absorb(event)
                    recorded.absorb(event)
                    if case .packets(let all) = event {
                        seen = all.first { $0.networkNamespace == networkNamespace && $0.index == 1 } ?? seen
                    }
                    guard case .rows(let folded) = event else { return }
                    rows += folded.processes.filter { $0.owner.identity.pid == pid }
                    rows += folded.users.filter { $0.owner.uid == uid } + [folded.common].compactMap(\.self)
                }
                return !capture.status.awaitsRows && sweeps >= 2 && (isWhole() || sweeps >= 20)
            }
            let lo = try #require(seen)
            #expect(isDone && isWhole(), "\(counted()) of \(bytes), \(lo)")
            #expect(lo.sent.ip > bytes)
            let loss = ledger.tick(capture).snapshot.capture.loss
            // Not `mapFull`: shared sockets of other tests' programs may find no room in such small maps.
            #expect(loss.socketsFolded > 700)
        }

        @Test(
            "in a namespace of its own, packets with and without a socket add up to the interface's counters",
            arguments: [1, 50]
        )
        func ownNamespace(transfers: Int) throws {
            let capture = try BPFCapture(method: self.method, wire: .audited)
            // One known kernel skips programs for events on threads of process 1 (see TrafficCapture). The kernel's
            // trace lists those events.
            let leftOut = EventsOfProcessOne(["net/net_dev_start_xmit", "net/netif_receive_skb"])
            let (lo, passed) = try self.transfer(transfers, seenBy: capture)
            let events = leftOut?.stop() ?? []
            for (bytes, event) in [(lo.sent, "net_dev_start_xmit"), (lo.received, "netif_receive_skb")] {
                let missed = events.filter { $0.contains(" \(event): dev=lo ") }.count
                // The trace has other namespaces' events, too. Without any event no packet may be missing.
                #expect(
                    bytes.packets <= passed.packets && bytes.packets + UInt64(missed) >= passed.packets,
                    "\(bytes.packets) of \(passed.packets) packets, \(missed) missed"
                )
                #expect(
                    bytes.ip <= passed.bytes && (bytes.ip == passed.bytes || bytes.packets < passed.packets),
                    "\(bytes.ip) of \(passed.bytes) bytes"
                )
                #expect(bytes.other == 0 && bytes.fragments == 0)
            }
            #expect(lo.sent.wire == lo.sent.socket + lo.sent.noSocket)
            // The reset, and the answers from TIME-WAIT.
            #expect(lo.sent.noSocket >= 40)
            #expect(lo.ofNoSocket.received >= lo.sent.noSocket)
        }

        /// Transfers bytes in a namespace of its own, whose counters begin at 0.
        private func transfer(
            _ transfers: Int,
            seenBy capture: BPFCapture
        ) throws -> (lo: InterfacePackets, passed: (bytes: UInt64, packets: UInt64)) {
            let (_, outcome) = try OwnNamespace.run {
                for _ in 0..<5 {
                    let pair = try SocketPair()
                    for _ in 0..<transfers { try pair.transfer(200_000) }
                }
                // No socket listens there: the kernel sends a reset without a socket.
                OwnNamespace.connectInVain()
                let networkNamespace = ProcessDirectory.networkNamespace(task: "thread-self")
                var seen: InterfacePackets?
                let passed = try Self.sweepAtRest(capture) { event in
                    guard case .packets(let all) = event else { return }
                    seen = all.first { $0.networkNamespace == networkNamespace && $0.index == 1 }
                }
                return (seen: seen, passed: passed)
            }
            return (try #require(outcome.seen), outcome.passed)
        }

        /// Sweeps until no packet passes meanwhile, because the kernel may send a last one later.
        ///
        /// - Returns: The counters of loopback, in the thread's namespace, before and after the last sweeps.
        private static func sweepAtRest(
            _ capture: BPFCapture,
            _ absorb: (CaptureEvent) -> Void
        ) throws -> (bytes: UInt64, packets: UInt64) {
            let passed = try blockingLook(until: { $0 != nil }) { () -> (bytes: UInt64, packets: UInt64)? in
                let before = OwnNamespace.loopbackCounters()
                // Two, as in ``BPFCapture/look()``.
                for _ in 1...2 { try capture.sweep(absorb) }
                return OwnNamespace.loopbackCounters() == before ? before : nil
            }
            return try #require(passed)
        }
    }
}

/// A network namespace that lives as long as one thread of this process.
enum OwnNamespace {
    static func run<Result>(_ body: @escaping () throws -> Result) throws -> (networkNamespace: UInt32, result: Result)
    {
        nonisolated(unsafe) var outcome: Swift.Result<(UInt32, Result), any Error>?
        nonisolated(unsafe) let body = body
        let done = DispatchSemaphore(value: 0)
        let thread = Thread {
            outcome = Swift.Result {
                Self.letFoundationMakeItsSockets
                try check("unshare") { linux_unshare_network() }
                Self.raise("lo")
                let inode = ProcessDirectory.networkNamespace(task: "thread-self") ?? 0
                return (inode, try body())
            }
            done.signal()
        }
        thread.start()
        done.wait()
        let (networkNamespace, result) = try #require(outcome).get()
        return (networkNamespace, result)
    }

    /// Runs once. When Foundation's `Process` starts its first program, it makes a pair of UDP sockets in the thread's
    /// namespace and sends a byte over them. No namespace whose bytes a test counts may have that byte.
    private static let letFoundationMakeItsSockets: Void = {
        do {
            try Foundation.Process.run(URL(filePath: "/bin/true"), arguments: []).waitUntilExit()
        } catch {
            Issue.record(error)
        }
    }()

    /// `ip link set … up` in the thread's namespace.
    static func raise(_ interface: String) { self.ip("link", "set", interface, "up") }

    /// ip(8) in the thread's namespace, which a child process inherits.
    static func ip(_ words: String...) {
        _ = try? Tool.wait(for: "ip", words, mayFail: true)
    }

    static func loopbackCounters() -> (bytes: UInt64, packets: UInt64) {
        let lines = text(ofFile: "/proc/thread-self/net/dev")?.split(separator: "\n") ?? []
        let fields = lines.first { $0.contains("lo:") }?.split(separator: ":").last?.split(separator: " ") ?? []
        guard fields.count > 9, let bytes = UInt64(fields[8]), let packets = UInt64(fields[9]) else { return (0, 0) }
        return (bytes, packets)
    }

    /// TCP sockets in the thread's namespace that have not ended. What is in TIME-WAIT is no socket any more.
    static func openSockets() -> Int {
        let lines = text(ofFile: "/proc/thread-self/net/tcp")?.split(separator: "\n").dropFirst() ?? []
        return lines.count { $0.split(separator: " ")[3] != "06" }
    }

    /// Segments of TCP that were sent again or received out of order (proc_pid_net(5), `snmp` and `netstat`).
    static func disturbances() -> UInt64 {
        let names: Set<Substring> = [
            "RetransSegs", "TCPLossProbes", "TCPOFOQueue", "TCPDSACKOldSent", "TCPDSACKOfoSent",
        ]
        return ["snmp", "netstat"].reduce(0) { sum, file in
            let lines = text(ofFile: "/proc/thread-self/net/\(file)")?.split(separator: "\n") ?? []
            // A line of names, and a line of their values.
            return stride(from: 0, to: lines.count - 1, by: 2).reduce(sum) { sum, line in
                let pairs = zip(lines[line].split(separator: " "), lines[line + 1].split(separator: " "))
                return pairs.filter { names.contains($0.0) }.reduce(sum) { $0 + (UInt64($1.1) ?? 0) }
            }
        }
    }

    static func connectInVain() {
        let client = OwnedDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(9).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = connect(client.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
