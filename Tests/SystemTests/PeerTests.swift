import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// The daemon's counts, compared with other programs' counts of their own traffic.
    @Suite(.tags(.peer), .needsBPF)
    struct PeerTests {
        /// Closed sockets and exited processes stay listed until the test has looked at all of them.
        private static let keeping = ["--keep-closed", "600", "--keep-exited", "86400"]

        // MARK: iperf3

        private static let noAnswer = "iperf3: unable to read from stream socket: Resource temporarily unavailable"

        /// iperf3's client waits 30 s for the server's answer to its first datagram, and then fails. The server ends, too.
        private func run(
            _ options: [String],
            in namespace: NetworkNamespace
        ) async throws -> (iperf: Iperf, report: Iperf.Report) {
            // Ten minutes.
            var triesLeft = 20
            while true {
                let iperf = try await Iperf(in: namespace)
                triesLeft -= 1
                do {
                    let report = try await iperf.run(options)
                    return (iperf, report)
                } catch let failure as Program.Failure where triesLeft > 0 && failure.description == Self.noAnswer {
                    try await iperf.stop()
                }
            }
        }

        /// On each data connection iperf3 first sends its 37-byte cookie (TCP), or 4 bytes each way (UDP).
        @Test(
            "iperf3's data streams have the bytes of iperf3's own JSON",
            .needs("iperf3", "ip"),
            arguments: [("tcp", 37 as UInt64, 0 as UInt64), ("udp", 4, 4)]
        )
        func iperf(_ transport: String, _ greeting: UInt64, _ answer: UInt64) async throws {
            let amount = transport == "udp" ? ["--udp", "--bytes", "2M", "--bitrate", "100M"] : ["--bytes", "64M"]
            try await NetworkNamespace.with { namespace in
                try await withDaemon(arguments: Self.keeping) { daemon in
                    let (iperf, report) = try await self.run(["--parallel", "2"] + amount, in: namespace)
                    let snapshot = try await daemon.snapshot()
                    try await iperf.stop()
                    #expect(report.end.streams.count == 2)
                    let inode = try namespace.inode
                    let clients = (snapshot.sockets ?? []).filter {
                        $0.transport.rawValue == transport && $0.role != .server && $0.remote.port == Iperf.port
                            && $0.networkNamespace == inode
                    }
                    for stream in report.end.streams {
                        let side = try #require(stream.sender ?? stream.udp)
                        let connection = try #require(report.start.connected.first { $0.socket == side.socket })
                        let socket = try #require(clients.first { $0.local.port == connection.local_port })
                        #expect(socket.bytes.payload == PayloadBytes(sent: side.bytes + greeting, received: answer))
                    }
                }
            }
        }

        // MARK: nginx and curl

        private struct Transfer {
            var port: UInt16
            var sent: UInt64
            var received: UInt64
        }

        /// curl's own figures. Sent are request and upload; received are header and body.
        private func curl(_ arguments: [String]) async throws -> [Transfer] {
            let format = "%{local_port} %{size_request} %{size_upload} %{size_header} %{size_download}\n"
            let result = try await tool("curl", ["--silent", "--show-error", "--write-out", format] + arguments)
            #expect(result.code == 0, "\(result.error)")
            return result.output.split(separator: "\n").map { line in
                let fields = line.split(separator: " ").map { UInt64($0) ?? 0 }
                return Transfer(
                    port: UInt16(fields[0]),
                    sent: fields[1] + fields[2],
                    received: fields[3] + fields[4]
                )
            }
        }

        @Test("nginx with sendfile and curl have the bytes of nginx's log and curl's figures", .needs("nginx", "curl"))
        func webServer() async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                let nginx = try await WebServer(files: ["small": 1234, "large": 10_000_000])
                let nowhere = ["--output", "/dev/null"]
                var transfers: [Transfer] = []
                transfers += try await self.curl([nginx.url("large")] + nowhere)
                transfers += try await self.curl([nginx.url("small")] + nowhere)
                transfers += try await self.curl([nginx.url("none")] + nowhere)
                // Two requests on one connection: their figures add up on its socket.
                transfers += try await self.curl([nginx.url("large")] + nowhere + [nginx.url("small")] + nowhere)
                let snapshot = try await daemon.snapshot()
                try await nginx.stop()

                let byPort = Dictionary(grouping: transfers, by: \.port)
                #expect(byPort.count == 4)
                let log = Dictionary(grouping: try nginx.log(), by: \.remotePort)
                for (port, transfers) in byPort {
                    let sockets = (snapshot.sockets ?? []).filter { $0.transport == .tcp }
                    let client = try #require(sockets.first { $0.local.port == port && $0.remote.port == nginx.port })
                    let server = try #require(sockets.first { $0.remote.port == port && $0.local.port == nginx.port })
                    let asked = transfers.reduce(PayloadBytes()) {
                        $0 + PayloadBytes(sent: $1.sent, received: $1.received)
                    }
                    #expect(client.bytes.payload == asked)
                    let entries = log[port] ?? []
                    let answered = entries.reduce(PayloadBytes()) {
                        $0 + PayloadBytes(sent: $1.bytesSent, received: $1.requestLength)
                    }
                    #expect(server.bytes.payload == answered)
                }
            }
        }

        @Test("an upload has the bytes of nginx's log and curl's figures", .needs("nginx", "curl"))
        func upload() async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                let nginx = try await WebServer(files: ["source": 5_000_000])
                let source = nginx.folder.appending(path: "source").path
                let transfers = try await self.curl(
                    [
                        "--upload-file", source, "--header", "Expect:", nginx.url("upload/target"), "--output",
                        "/dev/null",
                    ]
                )
                let snapshot = try await daemon.snapshot()
                try await nginx.stop()
                let transfer = try #require(transfers.first)
                let entry = try #require(try nginx.log().first)
                let sockets = (snapshot.sockets ?? []).filter { $0.transport == .tcp }
                let client = try #require(
                    sockets.first { $0.local.port == transfer.port && $0.remote.port == nginx.port }
                )
                let server = try #require(
                    sockets.first { $0.remote.port == transfer.port && $0.local.port == nginx.port }
                )
                #expect(client.bytes.payload == PayloadBytes(sent: transfer.sent, received: transfer.received))
                #expect(server.bytes.payload == PayloadBytes(sent: entry.bytesSent, received: entry.requestLength))
                #expect(entry.requestLength > 5_000_000)
            }
        }

        @Test("300 curl processes are all named, and their sum is nginx's", .needs("nginx", "curl"))
        func curlStorm() async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                let nginx = try await WebServer(files: ["small": 4321])
                let curl = try #require(Machine.path(of: "curl"))
                let command = """
                    for i in $(seq 300); do
                        sh -c 'echo $$; exec "$0" --silent --output /dev/null "$1?number=$2"' "$0" "$1" "$i" &
                        [ $((i % 20)) -ne 0 ] || wait
                    done
                    wait
                    """
                let result = try await tool("sh", ["-c", command, curl.path, nginx.url("small")])
                let snapshot = try await daemon.snapshot()
                try await nginx.stop()

                let pids = Set(result.output.split(separator: "\n").compactMap { Int32($0) })
                #expect(pids.count == 300)
                let counted = (snapshot.processes ?? []).filter {
                    pids.contains($0.identity.pid) && $0.bytes.payload.total > 0
                }
                #expect(counted.count == 300)
                #expect(counted.allSatisfy { $0.details.name == "curl" })
                let sum = counted.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
                let log = try nginx.log()
                #expect(log.count == 300)
                #expect(sum.sent == log.reduce(0) { $0 + $1.requestLength })
                #expect(sum.received == log.reduce(0) { $0 + $1.bytesSent })
            }
        }
    }
}
