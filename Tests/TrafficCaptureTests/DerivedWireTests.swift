import Foundation
import Glibc
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// Wire bytes without packets (`bpf/derive.bpf.h`), beside those of a capture that sees the packets, and beside the
    /// counters of the interface.
    @Suite("Derived wire bytes")
    struct DerivedWireTests {
        private let method = LiveMethod.probed.method ?? .tracepoint

        /// What a program does. Its sockets are open until the test has looked, unless it closes them itself.
        struct Traffic: Sendable {
            var name: String
            /// Python, after ``opening``.
            var program: String
            /// Packets that no socket sends, or aggregates, whose headers the interface counts once.
            var interfaceDiffers = false
        }

        static let opening = """
            import fcntl, os, socket, struct, subprocess, sys, time
            kept = []
            def stream(family=socket.AF_INET, host="127.0.0.1"):
                listener = socket.socket(family)
                listener.bind((host, 0))
                listener.listen(8)
                client = socket.socket(family)
                client.connect(listener.getsockname())
                kept.append((client, listener.accept()[0], listener))
                return kept[-1]
            def move(client, server, size=1000, rounds=50):
                for number in range(rounds):
                    client.sendall(bytes(size))
                    left = size
                    while left: left -= len(server.recv(left))
                    server.sendall(b"ok")
                    assert client.recv(2) == b"ok"
            def datagrams(family=socket.AF_INET, host="127.0.0.1"):
                one, other = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
                for any in (one, other):
                    if family == socket.AF_INET6: any.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    any.bind((host, 0))
                kept.append((one, other))
                return one, other
            def lose(which=""):
                # one packet in a hundred of those that come in, from now on
                subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "1"], check=True)
                rule = which + " numgen inc mod 100 == 0 drop"
                chain = "chain in { type filter hook input priority 0; " + rule + "; }"
                subprocess.run(["nft", "table inet loss { " + chain + "; }"], check=True)
            def exchange(one, other, size, rounds=20):
                for number in range(rounds):
                    assert one.sendto(bytes(size), other.getsockname()) == size
                    data, sender = other.recvfrom(65536)
                    assert len(data) == size
                    other.sendto(b"yes", sender)
                    assert one.recv(100) == b"yes"

            """

        static let regular: [Traffic] = [
            Traffic(name: "TCP over IPv4", program: "move(*stream()[:2])"),
            Traffic(name: "TCP over IPv6", program: "move(*stream(socket.AF_INET6, '::1')[:2])"),
            Traffic(
                name: "IPv4 on a socket of IPv6",
                program: """
                    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
                    client = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
                    server, _ = listener.accept()
                    kept.append((client, server, listener))
                    move(client, server)
                    """
            ),
            Traffic(
                name: "bulk",
                program: "move(*stream()[:2], size=3000000, rounds=3)",
                interfaceDiffers: true
            ),
            Traffic(
                name: "connections that end",
                program: """
                    for number in range(20):
                        client, server, listener = stream()
                        move(client, server, rounds=3)
                        for any in (client, server, listener) if number % 2 else (server, client, listener): any.close()
                    """
            ),
            Traffic(
                name: "without timestamps",
                program: """
                    open("/proc/sys/net/ipv4/tcp_timestamps", "w").write("0")
                    move(*stream()[:2])
                    """
            ),
            Traffic(
                name: "without timestamps, SACK and window scaling",
                program: """
                    for name in ("timestamps", "sack", "window_scaling"): open("/proc/sys/net/ipv4/tcp_" + name, "w").write("0")
                    move(*stream()[:2])
                    """
            ),
            Traffic(
                name: "a socket that connects again",
                program: """
                    client, listener = socket.socket(), socket.create_server(("127.0.0.1", 0))
                    for number in range(2): assert client.connect_ex(("127.0.0.1", 9)) == 111
                    client.connect(listener.getsockname())
                    server, _ = listener.accept()
                    kept.append((client, server, listener))
                    move(client, server)
                    """,
                interfaceDiffers: true
            ),
            Traffic(
                name: "connections that are refused",
                program: """
                    for number in range(5):
                        with socket.socket() as refused: assert refused.connect_ex(("127.0.0.1", 9)) == 111
                    """,
                interfaceDiffers: true
            ),
            Traffic(
                name: "UDP, empty datagrams too",
                program: "for size in (0, 1, 100, 1472): exchange(*datagrams(), size)"
            ),
            Traffic(
                name: "UDP over IPv6",
                program: "for size in (0, 1, 100, 1452): exchange(*datagrams(socket.AF_INET6, '::1'), size)"
            ),
            Traffic(
                name: "connected UDP",
                program: """
                    one, other = datagrams()
                    one.connect(other.getsockname())
                    other.connect(one.getsockname())
                    for number in range(20):
                        one.send(bytes(number))
                        assert len(other.recv(100)) == number
                    """
            ),
        ]

        @Test("equal the packets to the byte where nothing is lost")
        func equal() throws {
            let captures = try Captures(self.method)
            for traffic in Self.regular {
                let name = Comment(rawValue: traffic.name)
                // On a busy machine TCP sends something again, or a processor hands over a segment late.
                let outcome = try blockingLook(until: { $0.disturbances == 0 }) {
                    try self.look(at: traffic, captures)
                }
                #expect(outcome.disturbances == 0, name)
                #expect(outcome.derived == outcome.exact, name)
                if !traffic.interfaceDiffers {
                    #expect(outcome.derived == WireTotals(sent: outcome.passed, received: outcome.passed), name)
                }
                #expect(outcome.derived.sent > 0 && Set(outcome.qualities) == [.derived], name)
                #expect(outcome.inLedger == outcome.derived, name)
            }
        }

        static let irregular: [Traffic] = [
            Traffic(
                name: "several datagrams in a call",
                program: """
                    one, other = datagrams()
                    one.setsockopt(socket.IPPROTO_UDP, 103, 500)  # UDP_SEGMENT
                    one.sendto(bytes(1300), other.getsockname())
                    """
            ),
            Traffic(
                name: "calls that add to one datagram",
                program: """
                    one, other = datagrams()
                    one.connect(other.getsockname())
                    one.send(bytes(10), socket.MSG_MORE)
                    one.send(bytes(10))
                    """
            ),
            Traffic(
                name: "datagrams without room",
                program: """
                    one, other = datagrams()
                    exchange(one, other, 10)
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                    for number in range(100): one.sendto(bytes(1000), other.getsockname())
                    """
            ),
            Traffic(
                name: "datagrams that nobody reads",
                program: """
                    one, other = datagrams()
                    exchange(one, other, 10)
                    one.sendto(bytes(10), other.getsockname())
                    other.close()
                    """
            ),
            Traffic(
                name: "IP options",
                program: """
                    client, server, listener = stream()
                    client.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([1, 1, 1, 0]))
                    move(client, server)
                    """
            ),
            Traffic(
                name: "a connection that is reset",
                program: """
                    client, server, listener = stream()
                    server.sendall(b"unread")
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
                    """
            ),
            Traffic(
                name: "a connection that is dissolved by a reset",
                program: """
                    import ctypes
                    client, server, listener = stream()
                    move(client, server)
                    time.sleep(0.5)  # some sweeps see the larger connection
                    assert ctypes.CDLL(None).connect(client.fileno(), bytes(16), 16) == 0
                    client.connect(listener.getsockname())
                    move(client, listener.accept()[0], rounds=3)
                    """
            ),
            Traffic(
                name: "both families on one socket",
                program: """
                    one, other = [socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(2)]
                    other.bind(("::", 0))
                    one.sendto(bytes(10), ("::ffff:127.0.0.1", other.getsockname()[1]))
                    other.recv(100)
                    kept.append((one, other))
                    """
            ),
        ]

        @Test("where they may differ, a socket says so")
        func estimates() throws {
            let captures = try Captures(self.method)
            for traffic in Self.irregular {
                let outcome = try self.look(at: traffic, captures)
                let name = Comment(rawValue: traffic.name)
                #expect(outcome.qualities.contains(.estimated), name)
                #expect(outcome.inLedger.sent == outcome.derived.sent, name)
                #expect(outcome.inLedger.received == outcome.derived.received, name)
                // In the ledger only what was counted since a socket's quality is worse.
                let (counted, all) = (outcome.inLedger.estimated, outcome.derived.estimated)
                #expect(counted > 0 && counted <= all, name)
            }
        }

        /// Of SACK only one block for each segment out of order counts, and none of what was received. Payload that came twice
        /// is an estimate. Beside 1,500 bytes that is little.
        @Test(
            "with one packet in a hundred lost, both directions together are off by less than half a percent"
        )
        func loss() throws {
            let traffic = Traffic(
                name: "loss",
                program: """
                    lose()
                    client, server, listener = stream()
                    for one, other in ((client, server), (server, client)):
                        if os.fork() == 0:
                            one.sendall(bytes(10000000))
                            os._exit(0)
                        left = 10000000
                        while left: left -= len(other.recv(min(left, 1000000)))
                        os.wait()
                    """
            )
            let outcome = try self.look(at: traffic, Captures(self.method))
            let (derived, exact) = (outcome.derived, outcome.exact)
            #expect(outcome.qualities.count { $0 == .estimated } == 2)
            let error = { (one: UInt64, other: UInt64) in abs(Double(one) - Double(other)) / Double(other) }
            #expect(error(derived.sent + derived.received, exact.sent + exact.received) < 0.005)
        }

        /// An acknowledgement has 52 bytes, and with SACK 12, 20 or 28 more (RFC 2018). The estimate takes 12 for each segment
        /// that came out of order, by the kernel's own count (`struct tcp_info`). So it has at least 52 / 80 of what was sent.
        /// There is no such bound above: one acknowledgement may answer several segments.
        @Test("with one segment in a hundred lost, acknowledgements are estimated as docs/numbers.md says")
        func acknowledgements() throws {
            let told = FileManager.default.temporaryDirectory.appending(path: "tcp-info-\(UUID().uuidString)").path
            defer { try? FileManager.default.removeItem(atPath: told) }
            let traffic = Traffic(
                name: "acknowledgements",
                program: """
                    lose("meta length > 1000") # no acknowledgement
                    client, server, listener = stream()
                    if os.fork() == 0:
                        client.sendall(bytes(10000000))
                        os._exit(0)
                    left = 10000000
                    while left: left -= len(server.recv(min(left, 1000000)))
                    os.wait()
                    # SIOCOUTQ: all is acknowledged. A segment that was sent twice may still be on its way.
                    while any(fcntl.ioctl(client, 0x5411, bytes(4))): time.sleep(0.05)
                    time.sleep(0.5)
                    info = server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                    repeated, segments, unordered = (struct.unpack_from("I", info, at)[0] for at in (100, 136, 224))
                    with open("\(told)", "w") as file: print(repeated, segments, unordered, file=file)
                    """
            )
            let (derived, exact) = try self.look(at: traffic, Captures(self.method)).ofServers
            let numbers = try #require(text(ofFile: told)).split(whereSeparator: \.isWhitespace)
                .compactMap { UInt64($0) }
            try #require(numbers.count == 3 && numbers[2] > 0)
            let (repeated, segments, unordered) = (numbers[0], numbers[1], numbers[2])
            // A SYN-ACK has 60 bytes, and TCP does not count it among the segments.
            #expect(derived.sent == (1 + repeated) * 60 + segments * 52 + unordered * 12)
            #expect(derived.sent * 80 >= exact.sent * 52)
        }

        /// What the generator does with sockets: whatever a socket says is derived, is what its packets were. Not
        /// `udp-trunc`: no program sees how much of a datagram a call left out.
        @Test("no socket says that its wire bytes are derived where they differ")
        func scenarios() throws {
            let captures = try Captures(self.method)
            for scenario in [
                "tcp", "tcp-requests", "tcp-unread", "tcp-nonblocking", "tcp-oob", "tcp-cork", "tcp-zero-window",
                "writev",
                "mapped", "half-close", "reset", "abort", "killed", "connect-reuse", "sendfile", "tcp-zerocopy",
                "udp", "udp-segments", "udp-mmsg", "udp-refused", "udp-mapped", "fork-shared", "threads",
            ] {
                let (networkNamespace, outcome) = try OwnNamespace.run {
                    let generator = Foundation.Process()
                    generator.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
                        .deletingLastPathComponent().appending(path: "trafficgen")
                    generator.arguments = ["--hold", "600", "--address", "127.0.0.1", "--address", "::1", scenario]
                    return try Self.records(of: generator, captures)
                }
                let sockets = outcome.byDerived.byCookie.values.filter { $0.networkNamespace == networkNamespace }
                #expect(!sockets.isEmpty, "\(scenario)")
                for socket in sockets {
                    guard socket.wire?.quality == .derived, socket.role != .server, socket.role != .listener,
                        let other = outcome.byExact[socket.cookie.rawValue], other.state == socket.state
                    else { continue }
                    #expect(socket.wire?.total == other.wire?.total, "\(scenario): \(socket)")
                }
            }
        }

        /// One sees no packets, and one sees them.
        private struct Captures {
            let derived: BPFCapture
            let exact: BPFCapture

            init(_ method: CaptureMethod) throws {
                self.derived = try BPFCapture(method: method, wire: .derived)
                self.exact = try BPFCapture(method: method, wire: .exact)
            }
        }

        private struct Outcome {
            var derived = WireTotals()
            /// What the ledger has made of the records, also of those while bytes moved.
            var inLedger = WireTotals()
            var exact = WireTotals()
            /// Of accepted sockets alone.
            var ofServers = (derived: WireTotals(), exact: WireTotals())
            /// What passed the loopback interface.
            var passed: UInt64 = 0
            var qualities: [Quality] = []
            /// Segments that the kernel sent again or received out of order, by its own count.
            var disturbances: UInt64 = 0
        }

        private func look(at traffic: Traffic, _ captures: Captures) throws -> Outcome {
            let (networkNamespace, (outcome, disturbances)) = try OwnNamespace.run {
                let start = OwnNamespace.loopbackCounters().bytes
                let python = Foundation.Process()
                python.executableURL = URL(filePath: "/usr/bin/python3")
                python.arguments = [
                    "-c", Self.opening + traffic.program + "\nprint('done', flush=True)\nsys.stdin.readline()\n",
                ]
                var outcome = try Self.records(of: python, captures)
                outcome.passed -= start
                return (outcome, OwnNamespace.disturbances())
            }
            let wire = { (records: LatestRecords) in
                records.byCookie.values.filter { $0.networkNamespace == networkNamespace }.compactMap(\.wire)
            }
            let ofServers = { (records: LatestRecords) in
                records.byCookie.values.filter { $0.networkNamespace == networkNamespace && $0.role == .server }
                    .compactMap(\.wire).reduce(WireTotals()) { $0 + $1.total }
            }
            let moved = wire(outcome.byDerived).filter { !$0.total.isZero }
            return Outcome(
                derived: moved.reduce(WireTotals()) { $0 + $1.total },
                inLedger: outcome.listed.filter { $0.networkNamespace == networkNamespace }.reduce(WireTotals()) {
                    let (sent, received) = ($1.bytes.wireSent ?? 0, $1.bytes.wireReceived ?? 0)
                    return $0 + WireTotals(sent: sent, received: received, estimated: $1.bytes.wireEstimated)
                },
                exact: wire(outcome.byExact).reduce(WireTotals()) { $0 + $1.total },
                ofServers: (ofServers(outcome.byDerived), ofServers(outcome.byExact)),
                passed: outcome.passed,
                qualities: moved.map(\.quality),
                disturbances: disturbances
            )
        }

        private typealias Records = (
            passed: UInt64, byDerived: LatestRecords, byExact: LatestRecords, listed: [SocketUsage]
        )

        /// - Parameter process: Prints a line when it has moved its bytes, and then waits for one.
        private static func records(of process: Foundation.Process, _ captures: Captures) throws -> Records {
            let (input, output) = try Program.start(process)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            var (byDerived, byExact, ledger) = (LatestRecords(), LatestRecords(), Ledger())
            var answer = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while poll(&answer, 1, 20) == 0 {
                try captures.derived.sweep { event in
                    byDerived.absorb(event)
                    ledger.absorb(event)
                }
            }
            try #require(!output.nextLine().isEmpty)
            // A socket that was closed ends later, and the kernel may send a last acknowledgement.
            let passed = try blockingLook(until: { $0 != nil }) { () -> UInt64? in
                let before = OwnNamespace.loopbackCounters().bytes
                for _ in 1...2 {
                    try captures.derived.sweep { event in
                        byDerived.absorb(event)
                        ledger.absorb(event)
                    }
                    try captures.exact.sweep { byExact.absorb($0) }
                }
                return OwnNamespace.loopbackCounters().bytes == before ? before : nil
            }
            return (try #require(passed), byDerived, byExact, ledger.tick(captures.derived).snapshot.sockets ?? [])
        }
    }
}
