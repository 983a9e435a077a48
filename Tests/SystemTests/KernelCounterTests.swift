import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// The daemon's counts, compared with the kernel's own from `ss` and `/sys/class/net`.
    @Suite(.tags(.peer), .needsBPF)
    struct KernelCounterTests {
        @Test("payload, segments and round-trip times of open connections are what ss prints", .needs("ss"))
        func connections() async throws {
            try await withDaemon { daemon in
                let generator = try Generator(
                    Machine.programs,
                    scenario: "tcp-requests",
                    arguments: ["--count", "3000"]
                )
                let truth = try await generator.result()
                let cookies = Set(truth.sockets.filter { $0.sent > 0 }.map(\.cookie))
                #expect(cookies.count == 4)
                let (kernel, snapshot) = try await Self.quietMoment(of: cookies, daemon)
                try generator.goOn()
                try await generator.exit()

                try Self.compare(cookies, snapshot, kernel)
            }
        }

        @Test("retransmissions are what ss prints, if every tenth packet is lost", .needs("ss", "ip", "nft"))
        func retransmissions() async throws {
            try await NetworkNamespace.with { namespace in
                try await namespace.run("nft", "add table inet lossy")
                try await namespace.run("nft", "add chain inet lossy input { type filter hook input priority 0; }")
                // Never drop the first packet of a connection: that would cost a second.
                let rule = "tcp flags & (syn | fin) == 0 numgen random mod 10 0 counter drop"
                try await namespace.run("nft", "add rule inet lossy input \(rule)")
                try await withDaemon { daemon in
                    let generator = try Generator(
                        Machine.programs,
                        scenario: "tcp-requests",
                        arguments: ["--count", "100"],
                        launcher: try namespace.launcher()
                    )
                    let truth = try await generator.result()
                    try await namespace.run("nft", "delete table inet lossy")
                    let cookies = Set(truth.sockets.filter { $0.sent > 0 }.map(\.cookie))
                    #expect(cookies.count == 4)
                    let (kernel, snapshot) = try await Self.quietMoment(of: cookies, daemon, in: namespace)
                    try generator.goOn()
                    try await generator.exit()

                    try Self.compare(cookies, snapshot, kernel)
                    let again = cookies.compactMap { kernel[$0]?.retransmittedBytes }.reduce(0, +)
                    #expect(again > 0)
                    // The sum over processes is the sum over sockets.
                    let pids = Set(truth.processes.map(\.pid))
                    let ofProcesses = snapshot.processes?.filter { pids.contains($0.identity.pid) }
                        .reduce(0) { $0 + ($1.bytes.retransmitted ?? 0) }
                    #expect(ofProcesses == again)
                }
            }
        }

        @Test(
            "a process has as many open sockets as ss lists for it",
            .needs("ss"),
            arguments: ["idle", "udp", "scm-rights"]
        )
        func openSockets(scenario: String) async throws {
            try await withDaemon { daemon in
                let generator = try Generator(Machine.programs, scenario: scenario)
                let truth = try await generator.result()
                let listing = try await tool(
                    "ss",
                    ["--tcp", "--udp", "--all", "--processes", "--numeric", "--no-header", "--oneline"]
                )
                let snapshot = try await daemon.snapshot()
                try generator.goOn()
                try await generator.exit()

                var listed: [Int32: Int] = [:]
                for line in listing.output.split(separator: "\n") {
                    let pids = line.matches(of: /pid=([0-9]+)/).compactMap { Int32($0.output.1) }
                    for pid in Set(pids) { listed[pid, default: 0] += 1 }
                }
                let processes = truth.processes.map(\.pid).filter { listed[$0] != nil }
                #expect(!processes.isEmpty)
                for pid in processes {
                    let shown = snapshot.processes?.first { $0.identity.pid == pid }?.socketsOpen
                    #expect(shown == listed[pid], "process \(pid)")
                }
            }
        }

        @Test("interfaces have the bytes of /sys/class/net")
        func interfaces() async throws {
            try await withDaemon { daemon in
                // Other programs may send in the meantime. So the daemon's number is between two readings, and exact if
                // they are equal. Other tests may make and remove interfaces.
                let wasQuiet = try await eventually {
                    let before = try Self.interfaceBytes()
                    let snapshot = try await daemon.snapshot()
                    let after = try Self.interfaceBytes()
                    let shown = Dictionary(
                        uniqueKeysWithValues: (snapshot.interfaces ?? []).map {
                            ($0.name, PayloadBytes(sent: $0.sentBytes, received: $0.receivedBytes))
                        }
                    )
                    for (name, low) in before {
                        guard let high = after[name] else { continue }
                        let bytes = try #require(shown[name], "\(name) is not there")
                        #expect((low.sent...high.sent).contains(bytes.sent), "\(name) sent")
                        #expect((low.received...high.received).contains(bytes.received), "\(name) received")
                    }
                    let names = before.keys.sorted()
                    let isSame = names == shown.keys.sorted() && names == after.keys.sorted()
                    return isSame && shown.contains { $0.value.total > 0 && before[$0.key] == after[$0.key] }
                }
                #expect(wasQuiet, "no interface with traffic is ever quiet, or there are always others")
            }
        }

        // MARK: The kernel's side

        private static func interfaceBytes() throws -> [String: PayloadBytes] {
            func count(_ name: String, _ counter: String) -> UInt64? {
                let path = "/sys/class/net/\(name)/statistics/\(counter)"
                guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
                return UInt64(text.trimmingCharacters(in: .whitespacesAndNewlines))
            }
            var bytes: [String: PayloadBytes] = [:]
            for name in try FileManager.default.contentsOfDirectory(atPath: "/sys/class/net") {
                guard let sent = count(name, "tx_bytes"), let received = count(name, "rx_bytes") else { continue }
                bytes[name] = PayloadBytes(sent: sent, received: received)
            }
            return bytes
        }

        /// A connection as `ss` prints it.
        private struct Connection: Equatable {
            var payload = PayloadBytes()
            var retransmittedBytes: UInt64 = 0
            var retransmittedSegments: UInt64 = 0
            var segmentsSent: UInt64 = 0
            var segmentsReceived: UInt64 = 0
            var roundTripMicroseconds: UInt64 = 0
        }

        private static func compare(
            _ cookies: Set<UInt64>,
            _ snapshot: Snapshot,
            _ kernel: [UInt64: Connection]
        ) throws {
            for cookie in cookies {
                let connection = try #require(kernel[cookie], "ss does not list socket \(cookie)")
                let socket = try #require(snapshot.sockets?.first { $0.cookie.rawValue == cookie })
                #expect(socket.bytes.payload == connection.payload)
                #expect(socket.bytes.pendingSent == 0)
                #expect(socket.bytes.retransmitted == connection.retransmittedBytes)
                #expect(socket.retransmittedSegments == connection.retransmittedSegments)
                #expect(socket.segmentsSent == connection.segmentsSent)
                #expect(socket.segmentsReceived == connection.segmentsReceived)
                #expect(socket.smoothedRoundTripMicroseconds == connection.roundTripMicroseconds)
            }
        }

        /// A snapshot between two equal outputs of `ss`, because the last acknowledgements may still be on their way.
        private static func quietMoment(
            of cookies: Set<UInt64>,
            _ daemon: Daemon,
            in namespace: NetworkNamespace? = nil
        ) async throws -> ([UInt64: Connection], Snapshot) {
            let options = ["--tcp", "--info", "--extended", "--numeric", "--no-header", "--oneline"]
            func connections() async throws -> [UInt64: Connection] {
                let arguments = (namespace.map { ["--net", $0.name] } ?? []) + options
                return Self.connections(try await tool("ss", arguments).output).filter { cookies.contains($0.key) }
            }
            let moment = try await look(until: { $0.isQuiet }) {
                () -> (connections: [UInt64: Connection], snapshot: Snapshot, isQuiet: Bool) in
                let before = try await connections()
                let snapshot = try await daemon.snapshot()
                return (before, snapshot, try await connections() == before)
            }
            try #require(moment.isQuiet, "the connections are never quiet")
            return (moment.connections, moment.snapshot)
        }

        /// From `ss -tieO`: `sk:COOKIE` in hexadecimal, then the counters.
        private static func connections(_ text: String) -> [UInt64: Connection] {
            var connections: [UInt64: Connection] = [:]
            for line in text.split(separator: "\n") {
                var cookie: UInt64 = 0
                var connection = Connection()
                for word in line.split(whereSeparator: \.isWhitespace) {
                    let pair = word.split(separator: ":", maxSplits: 1)
                    guard pair.count == 2 else { continue }
                    let number = UInt64(pair[1]) ?? 0
                    switch pair[0] {
                    case "sk": cookie = UInt64(pair[1], radix: 16) ?? 0
                    case "bytes_sent": connection.payload.sent += number
                    case "bytes_retrans":
                        connection.payload.sent -= number
                        connection.retransmittedBytes = number
                    case "bytes_received": connection.payload.received = number
                    case "segs_out": connection.segmentsSent = number
                    case "segs_in": connection.segmentsReceived = number
                    // retrans:NOW/TOTAL, and rtt:SMOOTHED/VARIATION in milliseconds.
                    case "retrans":
                        connection.retransmittedSegments =
                            pair[1].split(separator: "/").last.flatMap { UInt64($0) } ?? 0
                    case "rtt":
                        let milliseconds = pair[1].split(separator: "/").first.flatMap { Double($0) } ?? 0
                        connection.roundTripMicroseconds = UInt64((milliseconds * 1000).rounded())
                    default: break
                    }
                }
                connections[cookie] = connection
            }
            return connections
        }
    }
}
