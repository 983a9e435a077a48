import Foundation
import GroundTruth
import Synchronization
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// Scopes and classes of real connections, compared with curl's and nginx's own figures.
    @Suite(.tags(.peer), .needsBPF, .needs("ip", "nft", "nginx", "curl"))
    struct DestinationTests {
        private struct Transfer {
            var port: UInt16
            var payload: PayloadBytes
        }

        /// The bytes that curl sent (request) and received (header and body), by its own figures.
        private func curl(_ url: String, in namespace: NetworkNamespace? = nil) async throws -> Transfer {
            let format = "%{local_port} %{size_request} %{size_header} %{size_download} %{http_code}"
            let options = [
                "--silent", "--show-error", "--noproxy", "*", "--output", "/dev/null", "--write-out", format,
            ]
            let inside = namespace.map { ["netns", "exec", $0.name, "curl"] } ?? []
            let result = try await tool(namespace == nil ? "curl" : "ip", inside + options + [url])
            let fields = result.output.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
            try #require(result.code == 0 && fields.count == 5 && fields[4] == 200, "\(url): \(result)")
            return Transfer(
                port: UInt16(fields[0]),
                payload: PayloadBytes(sent: fields[1], received: fields[2] + fields[3])
            )
        }

        @Test("each scope and class has curl's numbers; a container is this host from its first byte on")
        func sums() async throws {
            let lab = ContainerNetwork()
            let classes = [
                "lab=\(lab.network)", "host=\(lab.host)", "far=\(lab.far)/24", "six=\(lab.six)/64",
                "loop=\(lab.loopback)", "idle=203.0.113.0/24",
            ]
            try await withDaemon(arguments: classes.flatMap { ["--class", $0] }) { daemon in
                let start = try await daemon.snapshot()
                #expect(start.totals.byClass?.keys.sorted() == ["far", "host", "idle", "lab", "loop", "six"])
                #expect(start.totals.byClass?.values.allSatisfy { $0.payload.total == 0 } == true)

                // The daemon has not seen this namespace before.
                try await NetworkNamespace.with { namespace in
                    try await lab.connect(namespace)
                    let files = ["small": 1_234, "large": 5_000_000]
                    let inside = try await WebServer(files: files, addresses: ["0.0.0.0"], in: namespace)
                    let inside6 = try await WebServer(files: files, addresses: ["[::]"], in: namespace)
                    let outside = try await WebServer(files: files, addresses: [lab.loopback])
                    let addresses: [(name: String, address: String, scope: SocketScope)] = [
                        ("lab", lab.container, .sameHost), ("far", "\(lab.far.dropLast())77", .internet),
                        ("six", "[\(lab.six)77]", .localArea), ("loop", lab.loopback, .loopback),
                    ]
                    var sums: [String: PayloadBytes] = ["host": PayloadBytes(), "idle": PayloadBytes()]
                    for (name, address, scope) in addresses {
                        let server = name == "loop" ? outside : name == "six" ? inside6 : inside
                        for file in ["large", "small", "large"] {
                            // The daemon lists closed sockets only for a while. If the machine was too busy to look in
                            // that time, the next transfer counts just as well.
                            let isCompared = try await eventually {
                                let transfer = try await self.curl(server.url(file, at: address))
                                sums[name, default: PayloadBytes()] += transfer.payload
                                return try await Self.check(transfer, with: server, class: name, scope, on: daemon)
                            }
                            #expect(isCompared, "the daemon never listed a transfer to \(name)")
                        }
                    }
                    let snapshot = try await daemon.snapshot()
                    try await inside.stop()
                    try await inside6.stop()
                    try await outside.stop()

                    // The servers' ends: curl's address is in a class if curl came over IPv4 from the host's end of the
                    // pair.
                    for entry in try inside.log() {
                        sums["host"]? += PayloadBytes(sent: entry.bytesSent, received: entry.requestLength)
                    }
                    #expect(snapshot.totals.byClass?.mapValues(\.payload) == sums, "\(snapshot.capture.loss)")
                }
            }
        }

        /// Finds both ends of curl's transfer with a filter, and checks them. A port alone names no connection: another
        /// test's socket may have curl's port with another server. So each end is found by both ports.
        ///
        /// - Returns: `false` if the daemon no longer lists both.
        private static func check(
            _ transfer: Transfer,
            with server: WebServer,
            class name: String,
            _ scope: SocketScope,
            on daemon: Daemon
        ) async throws -> Bool {
            _ = try await daemon.snapshot()
            let sockets = { (filter: String) in
                let answer = try await daemon.get("/v1/sockets?filter=\(filter)")
                return try JSONDecoder().decode(Snapshot.self, from: answer.output).sockets ?? []
            }
            let isClients = { (socket: SocketUsage) in
                socket.local.port == transfer.port && socket.remote.port == server.port
            }
            let isServers = { (socket: SocketUsage) in
                socket.local.port == server.port && socket.remote.port == transfer.port
            }
            // The server is in a container of this host, although its address may look far away.
            let far = scope == .loopback ? SocketScope.loopback : .sameHost
            var ends: [SocketUsage] = []
            for (filter, isEnd) in [
                ("class:\(name)%20scope:\(scope.rawValue)%20lport:\(transfer.port)", isClients),
                ("scope:\(far.rawValue)%20rport:\(transfer.port)", isServers),
            ] {
                guard let end = try await sockets(filter).first(where: isEnd) else {
                    // What is still listed after that answer was missing in it.
                    let listed = try await sockets("port:\(transfer.port)").filter(isEnd)
                    let found = listed.map {
                        "\($0.local) \($0.remote) \($0.scope?.rawValue ?? "no scope") \($0.addressClass ?? "no class")"
                    }
                    #expect(found == [], "not among \(filter)")
                    return found != []
                }
                ends.append(end)
            }
            #expect(ends.map(\.role) == [.client, .server])
            #expect(ends[0].bytes.payload == transfer.payload)
            return true
        }

        @Test("a container that comes and goes between two sweeps counts as this host")
        func shortLived() async throws {
            var rounds: [Round] = []
            let isTested = try await eventually(every: .zero) {
                rounds.append(try await self.containerBetweenSweeps())
                return rounds.last == .tested
            }
            guard !isTested else { return }
            // A machine that was quick enough must have listed them in some round.
            #expect(!rounds.contains(.unlisted))
            try Test.cancel("this machine is too slow for a container within a minute")
        }

        /// What a round of ``shortLived()`` has shown.
        private enum Round {
            case tested
            /// A sweep came while the container was there.
            case swept
            /// Other tests closed so many sockets that these left the list at once.
            case unlisted
        }

        private func containerBetweenSweeps() async throws -> Round {
            let lab = ContainerNetwork()
            // The longest interval. The first sweep comes at the start, after this.
            let began = ContinuousClock.now
            return try await withDaemon(arguments: ["--interval", "60", "--class", "lab=\(lab.network)"]) { daemon in
                var sum = PayloadBytes()
                try await NetworkNamespace.with { namespace in
                    try await lab.connect(namespace)
                    let server = try await WebServer(files: ["file": 100_000], addresses: ["0.0.0.0"])
                    let client = try await self.curl(server.url("file", at: lab.host), in: namespace)
                    try await server.stop()
                    let entry = try #require(try server.log().first)
                    sum = client.payload + PayloadBytes(sent: entry.bytesSent, received: entry.requestLength)
                }
                let snapshot = try await daemon.snapshot()
                #expect(snapshot.totals.byClass?["lab"]?.payload == sum)
                let sockets = (snapshot.sockets ?? []).filter { $0.addressClass == "lab" }
                #expect(sockets.allSatisfy { $0.scope == .sameHost } && sockets.count <= 2, "\(sockets)")
                guard ContinuousClock.now - began < .seconds(60) else { return .swept }
                return sockets.count == 2 ? .tested : .unlisted
            }
        }

        @Test("without configured classes the snapshot has no classes")
        func none() async throws {
            try await withDaemon { daemon in
                let snapshot = try await daemon.snapshot()
                #expect(snapshot.totals.byClass == nil)
            }
        }
    }
}

/// A container's network: a namespace, a veth pair, and unused addresses from the ranges for tests (RFC 2544) and for
/// private use (RFC 4193). The namespace redirects packets for faraway addresses to itself. So, as with other machines,
/// no interface and no socket has these addresses.
private struct ContainerNetwork {
    /// The kernel removes a namespace's interfaces some time after the namespace. So the next network has another number.
    private static let numbers = Atomic<Int>(.random(in: 0...255))

    private let third = Self.numbers.add(1, ordering: .relaxed).newValue & 255
    private let link = "tdt\(UUID().uuidString.prefix(8))"
    private let site = "fd\(UUID().uuidString.prefix(2).lowercased()):\(UUID().uuidString.prefix(4).lowercased())"

    var network: String { "198.18.\(self.third).0/24" }
    var host: String { "198.18.\(self.third).1" }
    var container: String { "198.18.\(self.third).2" }
    var far: String { "198.19.\(self.third).0" }
    /// The network part of a /64.
    var six: String { "\(self.site):0:1::" }
    var loopback: String { "127.93.\(self.third).7" }

    func connect(_ namespace: NetworkNamespace) async throws {
        let name = namespace.name
        for command in [
            "link add \(self.link) type veth peer name eth0 netns \(name)",
            "address add \(self.host)/24 dev \(self.link)",
            "address add \(self.site)::1/64 dev \(self.link) nodad",
            "link set \(self.link) up",
            "-netns \(name) address add \(self.container)/24 dev eth0",
            "-netns \(name) address add \(self.site)::2/64 dev eth0 nodad",
            "-netns \(name) link set eth0 up",
            "route add \(self.far)/24 via \(self.container)",
            "-6 route add \(self.six)/64 via \(self.site)::2",
        ] {
            let result = try await tool("ip", command.split(separator: " ").map(String.init))
            try #require(result.code == 0, "ip \(command): \(result.error)")
        }
        try await namespace.run("nft", "add table inet lab")
        try await namespace.run("nft", "add chain inet lab far { type nat hook prerouting priority dstnat; }")
        try await namespace.run("nft", "add rule inet lab far ip daddr \(self.far)/24 redirect")
        try await namespace.run("nft", "add rule inet lab far ip6 daddr \(self.six)/64 redirect")
    }
}
