import AsyncHTTPClient
import Foundation
import Glibc
import GroundTruth
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import TestSupport
import Testing
import TrafficAPI
import TrafficDocuments
import TrafficFeed
import TrafficModel

@Suite("The control server on real sockets", .serialized)
struct ControlServerTests {
    static let isRoot = geteuid() == 0
    static let needsRoot: Comment = "becoming another user needs root"

    static func decode(_ data: Data) throws -> Snapshot {
        try JSONDecoder().decode(Snapshot.self, from: data)
    }

    @Test("The socket is there with its mode when the server is ready, and answers curl")
    func curl() async throws {
        try await TestServer.with { server in
            var status = stat()
            #expect(unsafe lstat(server.endpoints.socketPath, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o660)
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: server.path).sorted() == ["control.sock", "lock"]
            )
            let result = try await server.curl("/v1/snapshot")
            #expect(result.status == 0)
            #expect(try Self.decode(result.outputData) == Fixture.snapshot())
        }
    }

    @Test("AsyncHTTPClient gets a large snapshot over a connection that stays open")
    func asyncHTTPClient() async throws {
        try await TestServer.with(limits: Self.hours) { server in
            let large = Fixture.snapshot(sockets: 5000)
            server.box.readings.publish(Reading(snapshot: large))
            let url = try #require(URL(httpURLWithSocketPath: server.endpoints.socketPath, uri: "/v1/snapshot"))
            // A busy machine may rest longer between two requests than the client keeps a connection.
            var configuration = HTTPClient.Configuration()
            configuration.connectionPool.idleTimeout = .hours(1)
            let client = HTTPClient(configuration: configuration)
            do {
                for _ in 0..<3 {
                    let response = try await client.execute(
                        HTTPClientRequest(url: url.absoluteString),
                        timeout: .seconds(300)
                    )
                    let body = try await response.body.collect(upTo: 1 << 24)
                    #expect(response.headers.first(name: "content-length") == String(body.readableBytes))
                    #expect(try Self.decode(Data(body.readableBytesView)) == large)
                }
                #expect(try server.openSockets == 2)
            } catch {
                try await client.shutdown()
                throw error
            }
            try await client.shutdown()
        }
    }

    @Test("Another user sees only its own processes", .enabled(if: isRoot, needsRoot))
    func stranger() async throws {
        try await TestServer.with { server in
            chmod(server.endpoints.socketPath, 0o666)
            let become = ["setpriv", "--reuid", "65534", "--clear-groups"]
            let seen = try Self.decode(try await server.curl("/v1/snapshot", as: become).outputData)
            #expect(seen == Fixture.reading().visible(to: .user(65_534)).snapshot)
            #expect(seen.processes?.map(\.details.name) == ["web"])
            let other = ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups"]
            #expect(try Self.decode(try await server.curl("/v1/snapshot", as: other).outputData).processes == [])
            let stream = try await server.lines(of: "/v1/stream", as: other)
            #expect(!stream.outputData.isEmpty && !stream.output.contains("sshd"))
            let cost = try await server.curl("/v1/doctor?cost=1", options: ["-w", "%{http_code}"], as: other)
            #expect(cost.output.hasSuffix("403") && server.meter.measurements == 0)
        }
    }

    @Test("A member of the socket's group sees everything, others can't connect", .enabled(if: isRoot, needsRoot))
    func group() async throws {
        try await TestServer.with(group: "nogroup") { server in
            var status = stat()
            #expect(unsafe lstat(server.endpoints.socketPath, &status) == 0)
            #expect(status.st_gid == 65_534 && status.st_mode & 0o777 == 0o660)
            let many = (100..<140).map(String.init).joined(separator: ",") + ",65534"
            for become in [
                ["--regid", "65534", "--clear-groups"], ["--regid", "4242", "--groups", "4242,65534"],
                ["--regid", "4242", "--groups", many],
            ] {
                let result = try await server.curl("/v1/snapshot", as: ["setpriv", "--reuid", "4242"] + become)
                #expect(try Self.decode(result.outputData) == Fixture.snapshot())
            }
            let outsider = ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups"]
            #expect(try await server.curl("/v1/snapshot", as: outsider).status == 7)
        }
    }

    @Test("TCP answers on the port that the server reports, with the network's view")
    func tcp() async throws {
        let anyPort = TrafficModel.SocketAddress(address: Fixture.address("127.0.0.1"), port: 0)
        try await TestServer.with(listen: anyPort) { server in
            let port = try #require(server.endpoints.tcp?.port)
            #expect(port != 0)
            let base = "http://127.0.0.1:\(port)"
            let seen = try Self.decode(
                try await Tool.run("env", ["curl", "-s", base + "/v1/snapshot"], mayFail: true).outputData
            )
            #expect(seen == Fixture.reading().visible(to: .network).snapshot)
            let sockets = try await Tool.run(
                "env",
                ["curl", "-s", "-w", "%{http_code}", base + "/v1/sockets"],
                mayFail: true
            )
            #expect(sockets.output.hasSuffix("403"))
            let cost = try await Tool.run(
                "env",
                ["curl", "-s", "-w", "%{http_code}", base + "/v1/doctor?cost=1"],
                mayFail: true
            )
            #expect(cost.output.hasSuffix("403") && server.meter.measurements == 0)
            let rebound = try await Tool.run(
                "env",
                ["curl", "-s", "-w", "%{http_code}", "-H", "Host: evil.example", base],
                mayFail: true
            )
            #expect(rebound.output.hasSuffix("421"))
        }
    }

    @Test("A server on every address requires an address, localhost or an allowed name as the host")
    func hosts() async throws {
        let anyAddress = TrafficModel.SocketAddress(address: Fixture.address("0.0.0.0"), port: 0)
        try await TestServer.with(listen: anyAddress) { server in
            let port = try #require(server.endpoints.tcp?.port)
            func status(host: String) async throws -> Substring {
                let command = ["curl", "-s", "-w", "%{http_code}", "-H", "Host: \(host)"]
                return try await Tool.run("env", command + ["http://127.0.0.1:\(port)/v1/processes"], mayFail: true)
                    .output.suffix(3)
            }
            // A name server can't redirect a numeric address.
            for host in ["127.0.0.1:\(port)", "127.0.0.1", "localhost:\(port)", "192.0.2.1", "[2001:db8::1]:80"] {
                #expect(try await status(host: host) == "200", "\(host)")
            }
            for host in [
                "evil.example", "evil.example:\(port)", "1.evil.example", "[evil.example]", "127.0.0.1.nip.io",
            ] {
                #expect(try await status(host: host) == "421", "\(host)")
            }
        }
    }

    @Test("A port in use is a clear error, and leaves no socket behind")
    func portInUse() async throws {
        let anyPort = TrafficModel.SocketAddress(address: Fixture.address("127.0.0.1"), port: 0)
        try await TestServer.with(listen: anyPort) { server in
            let taken = try #require(server.endpoints.tcp)
            await #expect(
                throws: ControlServerError.cannotListen(on: taken.description, reason: "Address already in use")
            ) {
                try await TestServer.with(listen: taken) { _ in Issue.record("it listens") }
            }
        }
    }

    @Test("A socket that can't be put in its place ends the server with the reason")
    func blocked() async throws {
        let path = temporaryPath("trafficd")
        defer { try? FileManager.default.removeItem(atPath: path) }
        let directory = try RuntimeDirectory(taking: path)
        try FileManager.default.createDirectory(
            atPath: directory.controlSocketPath,
            withIntermediateDirectories: false
        )
        let server = ControlServer(
            source: ReadingBox(),
            cost: FakeMeter(),
            alerts: FakeAlerts(),
            runtimeDirectory: directory,
            network: nil,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        )
        let error = RuntimeDirectoryError.system(call: "rename", path: path + "/.private/control.sock", errno: EISDIR)
        await #expect(throws: error) { try await server.run() }
    }

    @Test("A stream has a line per interval of the snapshots' own time", arguments: [("0.1", 100), ("0.5", 500)])
    func stream(interval: String, milliseconds: UInt64) async throws {
        try await TestServer.with { server in
            let start = Fixture.snapshot().takenBoottimeNanoseconds
            // Publishes snapshots until the client has its lines, however long the client takes.
            let publisher = Task {
                for tick in 1... as PartialRangeFrom<UInt64> {
                    server.box.readings.publish(Fixture.reading(takenBoottimeNanoseconds: start + tick * 50_000_000))
                    try await Task.sleep(for: .milliseconds(5))
                }
            }
            defer { publisher.cancel() }
            let path = "/v1/stream?view=processes&interval=\(interval)"
            let lines = try await server.lines(of: path, count: 5).outputData.split(separator: 0x0a)
            let snapshots = try lines.map { try Self.decode($0) }
            #expect(snapshots.count == 5 && snapshots.allSatisfy { $0.sockets == nil })
            let times = snapshots.map(\.takenBoottimeNanoseconds)
            for (earlier, later) in zip(times, times.dropFirst()) {
                // A line never comes sooner. It may come later, because a slow client misses snapshots.
                #expect(later >= earlier + milliseconds * 1_000_000 - milliseconds * 100_000)
            }
        }
    }

    @Test("A stream of alerts begins where its follower is, has each change once, and says how many are missing")
    func alerts() async throws {
        try await TestServer.with { server in
            @Sendable func notices(after: String?, count: Int) async throws -> [AlertNotice] {
                let path = "/v1/alerts/changes" + (after.map { "?after=\($0)" } ?? "")
                return try await server.lines(of: path, count: count).outputData.split(separator: 0x0a).map {
                    try JSONDecoder().decode(AlertNotice.self, from: Data($0))
                }
            }
            server.alerts.change(3)
            let first = try await notices(after: "0000000000c0ffee-1", count: 3)
            #expect(first.map(\.position.number) == [1, 2, 3] && first.map(\.change) == [.following, .began, .began])
            // Another run: all that is kept.
            let other = try await notices(after: "00000000deadbeef-2", count: 4)
            #expect(other.map(\.position.number) == [0, 1, 2, 3])
            // While a follower reads, and from now on.
            let before = server.alerts.followerCount
            async let coming = notices(after: nil, count: 10)
            #expect(try await eventually { server.alerts.followerCount > before })
            server.alerts.change(12)
            let live = try await coming
            #expect(live.map(\.position.number) == Array(3...12))
            #expect(live.allSatisfy { $0.droppedBefore == 0 })
            // More than are kept.
            let last = server.alerts.beginning(after: nil).position.number
            server.alerts.change(200, rule: "s")
            let late = try await notices(after: "0000000000c0ffee-\(last)", count: 2)
            #expect(late[1].droppedBefore == 150 && late[1].position.number == last + 151)
        }
    }

    @Test("A client that reads nothing holds little memory and delays no other client")
    func backPressure() async throws {
        try await TestServer.with(limits: Self.hours) { server in
            let large = Fixture.snapshot(sockets: 2000)
            server.box.readings.publish(Reading(snapshot: large))
            let stalled = try await server.connectAndStall("/v1/stream")
            #expect(try await eventually { try server.openSockets == 2 && server.box.readings.readers == 1 })
            let before = try Self.residentBytes()
            // Each snapshot has 1.5 MB of JSON, so a queue of all of them would have 1.5 GB.
            for tick in 0..<1000 as Range<UInt64> {
                var snapshot = large
                snapshot.takenBoottimeNanoseconds += tick * 1_000_000_000
                server.box.readings.publish(Reading(snapshot: snapshot))
                if tick.isMultiple(of: 10) { try await Task.sleep(for: .milliseconds(1)) }
            }
            // Other tests of this process take memory, too, and give it back.
            #expect(try await eventually { try Self.residentBytes() - before < 200 << 20 })
            #expect(try await server.curl("/healthz").output == "{\"status\":\"ok\"}\n")
            // The server closes curl's socket in its own time.
            #expect(try await eventually { try server.openSockets == 2 && server.box.readings.readers == 1 })
            try? await stalled.close()
        }
    }

    @Test("A client that reads nothing is closed in the end")
    func stalledClient() async throws {
        var limits = Self.hours
        limits.stallTimeout = .milliseconds(500)
        try await TestServer.with(limits: limits) { server in
            server.box.readings.publish(Fixture.reading(sockets: 5000))
            // The line has more bytes than curl and the pipe take while nobody reads from curl.
            let client = try Self.follow("/v1/stream", of: server, options: ["-i"])
            #expect(try await client.line() == Data("HTTP/1.1 200 OK\r".utf8))
            #expect(try await eventually { try server.openSockets == 1 && server.box.readings.readers == 0 })
            _ = try await client.rest()
            #expect(try await client.exit() != 0, "the answer has no end")
        }
    }

    @Test("A client that leaves is noticed at once, not at the next line")
    func vanished() async throws {
        try await TestServer.with { server in
            for _ in 0..<20 {
                let channel = try await server.connectAndStall("/v1/stream?interval=3600")
                #expect(try await eventually { server.box.readings.readers == 1 })
                try await channel.close()
                #expect(try await eventually { try server.openSockets == 1 && server.box.readings.readers == 0 })
            }
        }
    }

    /// Limits of an hour: whatever ends is not ended by them.
    private static var hours: ControlServer.Limits {
        var limits = ControlServer.Limits()
        (limits.shutdownTimeout, limits.stallTimeout) = (.seconds(3600), .seconds(3600))
        limits.idleTimeout = .seconds(3600)
        return limits
    }

    /// curl, which prints an answer without an end as it comes.
    private static func follow(_ path: String, of server: TestServer, options: [String] = []) throws -> Program {
        let arguments = ["-sN", "--unix-socket", server.endpoints.socketPath] + options + ["http://localhost" + path]
        return try Program(try #require(SystemTool.path("curl")), arguments)
    }

    @Test("Streams end when the daemon stops")
    func shutdown() async throws {
        try await TestServer.with(limits: Self.hours) { server in
            server.box.readings.publish(Fixture.reading(sockets: 5000))
            let reader = try Self.follow("/v1/stream?view=processes", of: server)
            _ = try Self.decode(try #require(try await reader.line()))
            await server.group.triggerGracefulShutdown()
            #expect(try await reader.rest().isEmpty)
            #expect(try await reader.exit() == 0, "a whole response, its last chunk included")
        }
    }

    @Test("Clients that read nothing end soon after the daemon stops")
    func shutdownOfTheStalled() async throws {
        var limits = Self.hours
        limits.shutdownTimeout = .milliseconds(500)
        let stalled = try await TestServer.with(limits: limits) { server in
            server.box.readings.publish(Fixture.reading(sockets: 5000))
            let stalled = try await server.connectAndStall("/v1/stream")
            #expect(try await eventually { server.box.readings.readers == 1 })
            return stalled
        }
        try? await stalled.close()
    }

    @Test("Many connections come and go without leaving a descriptor")
    func descriptors() async throws {
        try await TestServer.with { server in
            for _ in 0..<3 {
                try await withThrowingTaskGroup(of: Int32.self) { group in
                    for _ in 0..<10 { group.addTask { try await server.curl("/v1/processes").status } }
                    for try await status in group { #expect(status == 0) }
                }
            }
            #expect(try await eventually { try server.openSockets == 1 })
        }
    }

    @Test(
        "Bytes that are not HTTP are refused, and the connection is closed",
        arguments: ["\0\0\0\0", "GET\r\n\r\n", "BREW / HTCPCP/1.0\r\n\r\n"]
    )
    func garbage(text: String) async throws {
        try await TestServer.with(limits: Self.hours) { server in
            let channel = try await server.connectAndStall("/healthz")
            try await channel.writeAndFlush(ByteBuffer(string: text))
            channel.read()
            #expect(try await eventually { try server.openSockets == 1 })
            try? await channel.close()
            #expect(try await server.curl("/healthz").status == 0)
        }
    }

    static func residentBytes() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
