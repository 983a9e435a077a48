import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import TestSupport
import Testing
import TrafficAPI
import TrafficFeed
import TrafficModel

/// A control server on real sockets in a directory of its own.
struct TestServer: Sendable {
    let box: ReadingBox
    let meter: FakeMeter
    let alerts: FakeAlerts
    let path: String
    let endpoints: ControlServer.Endpoints
    let group: ServiceGroup

    static func with<Value: Sendable>(
        listen: TrafficModel.SocketAddress? = nil,
        files: NetworkListener.Files = .init(),
        group: String = "trafficd",
        limits: ControlServer.Limits = ControlServer.Limits(),
        userOfPeer: @escaping ControlServer.UserOfPeer = { _, _ in nil },
        path: String = temporaryPath("trafficd"),
        origin: UInt64 = 0xc0ffee,
        _ body: @Sendable @escaping (TestServer) async throws -> Value
    ) async throws -> Value {
        defer { try? FileManager.default.removeItem(atPath: path) }
        let box = ReadingBox()
        box.readings.publish(Fixture.reading())
        let meter = FakeMeter()
        let alerts = FakeAlerts(origin: origin)
        let (ready, readiness) = AsyncStream.makeStream(of: ControlServer.Endpoints.self)
        var logger = Logger(label: "test")
        logger.logLevel = .error
        let network = try listen.map { try NetworkListener(address: $0, files: files) }
        let server = ControlServer(
            source: box,
            cost: meter,
            alerts: alerts,
            runtimeDirectory: try RuntimeDirectory(taking: path, group: group),
            network: network,
            userOfPeer: userOfPeer,
            limits: limits,
            logger: logger
        ) {
            readiness.yield($0)
        }
        let services = ServiceGroup(services: [server], logger: logger)
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { readiness.finish() }
                try await services.run()
            }
            guard let endpoints = await ready.first(where: { _ in true }) else {
                try await tasks.waitForAll()
                throw CancellationError()
            }
            let result: Swift.Result<Value, any Error>
            do {
                result = .success(
                    try await body(
                        TestServer(
                            box: box,
                            meter: meter,
                            alerts: alerts,
                            path: path,
                            endpoints: endpoints,
                            group: services
                        )
                    )
                )
            } catch {
                result = .failure(error)
            }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
            #expect(!FileManager.default.fileExists(atPath: endpoints.socketPath), "the socket is removed")
            #expect(try Self.sockets(below: path) == 0, "no descriptor of a socket is left")
            return try result.get()
        }
    }

    func curl(_ path: String, options: [String] = [], as privileges: [String] = []) async throws -> Tool {
        try await Tool.run(
            "env",
            privileges + ["curl", "-s", "--max-time", "600", "--unix-socket", self.endpoints.socketPath] + options
                + ["http://localhost" + path],
            mayFail: true
        )
    }

    /// The first lines of an answer without an end. The script kills curl after these lines.
    func lines(of path: String, count: Int = 1, as privileges: [String] = []) async throws -> Tool {
        // SIGTERM is blocked here, as in the test process.
        let script = #"""
            exec 3< <(exec curl -sN --max-time 600 --unix-socket "$0" "http://localhost$1")
            for ((left = $2; left > 0; left--)); do IFS= read -r line <&3 && printf '%s\n' "$line"; done
            kill -KILL $!
            """#
        return try await Tool.run(
            "env",
            privileges + ["bash", "-c", script, self.endpoints.socketPath, path, "\(count)"],
            mayFail: true
        )
    }

    /// A client that sends a request and reads nothing.
    func connectAndStall(_ path: String) async throws -> any Channel {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(unixDomainSocketPath: self.endpoints.socketPath).get()
        try await channel.writeAndFlush(ByteBuffer(string: "GET \(path) HTTP/1.1\r\nHost: trafficd\r\n\r\n"))
        return channel
    }

    /// The server's descriptors in the kernel's list: the listener and each accepted connection have the
    /// listener's path.
    var openSockets: Int {
        get throws { try Self.sockets(below: self.path) }
    }

    private static func sockets(below path: String) throws -> Int {
        // String(contentsOfFile:) takes the first short read of a /proc file for its end.
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/net/unix"))
        defer { try? file.close() }
        let text = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
        // Num RefCount Protocol Flags Type St Inode Path
        let inodes = text.split(separator: "\n").filter { $0.contains(path) }.map { $0.split(separator: " ")[6] }
        // Only those of this process: children of other tests, started meanwhile, may hold copies for a moment.
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let held = Set(
            descriptors.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
        )
        return inodes.count { held.contains("socket:[\($0)]") }
    }
}
