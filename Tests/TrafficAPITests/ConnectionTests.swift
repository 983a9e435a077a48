import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing
import TrafficAPI
import TrafficFeed
import TrafficModel

/// Strangers share the listener over TCP. None of them may keep others out.
@Suite("Connections of strangers", .timeLimit(.minutes(10)))
struct ConnectionTests {
    private static let loopback = TrafficModel.SocketAddress(address: Fixture.address("127.0.0.1"), port: 0)

    private func withServer(_ body: @Sendable @escaping (TestServer, UInt16) async throws -> Void) async throws {
        var limits = ControlServer.Limits()
        limits.connections = 8
        limits.streams = 4
        // Only what gives way makes room.
        limits.idleTimeout = .seconds(3600)
        limits.stallTimeout = .seconds(3600)
        try await TestServer.with(listen: Self.loopback, limits: limits) { server in
            try await body(server, try #require(server.endpoints.tcp?.port))
        }
    }

    /// A connection that sends this and then nothing, and reads nothing.
    private func stall(_ text: String, at port: UInt16) async throws -> any Channel {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(host: "127.0.0.1", port: Int(port)).get()
        if !text.isEmpty { try await channel.writeAndFlush(ByteBuffer(string: text)) }
        return channel
    }

    private func status(_ path: String, at port: UInt16) async throws -> String {
        try await Tool.run(
            "curl",
            ["-s", "-o", "/dev/null", "--max-time", "300", "-w", "%{http_code}", "http://127.0.0.1:\(port)\(path)"],
            mayFail: true
        ).output
    }

    @Test(
        "whoever says nothing, asks slowly, or does not read gives way, and others are answered",
        arguments: [
            "", "GET /healthz HTTP/1.1\r\nHost: 127",
            "GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
            "GET /v1/snapshot HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "GET /v1/stream?interval=3600 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ]
    )
    func strangers(text: String) async throws {
        try await self.withServer { server, port in
            // An answer that fits into no socket's buffers.
            if text.contains("snapshot") { server.box.readings.publish(Fixture.reading(sockets: 50_000)) }
            var channels: [any Channel] = []
            for _ in 0..<20 { channels.append(try await self.stall(text, at: port)) }
            for _ in 0..<5 { #expect(try await self.status("/healthz", at: port) == "200") }
            for channel in channels { try? await channel.close() }
        }
    }

    @Test("a request that is being answered does not give way to connections that say nothing")
    func answered() async throws {
        try await self.withServer { server, port in
            async let stream = Tool.run(
                "curl",
                ["-sN", "--max-time", "300", "http://127.0.0.1:\(port)/v1/stream?view=processes"],
                mayFail: true
            )
            #expect(try await eventually { server.box.readings.readers == 1 })
            var channels: [any Channel] = []
            for _ in 0..<40 { channels.append(try await self.stall("", at: port)) }
            #expect(try await self.status("/healthz", at: port) == "200")
            #expect(server.box.readings.readers == 1)
            server.box.readings.finish()
            #expect(try await stream.status == 0, "the stream ends as it should")
            for channel in channels { try? await channel.close() }
        }
    }

    @Test("streams beyond the limit are refused, and there is room again when one ends")
    func streams() async throws {
        try await self.withServer { server, port in
            let path = "/v1/stream?interval=3600"
            var channels: [any Channel] = []
            for _ in 0..<4 {
                channels.append(try await self.stall("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", at: port))
            }
            #expect(try await eventually { server.box.readings.readers == 4 })
            #expect(try await self.status(path, at: port) == "503")
            #expect(try await self.status("/v1/processes", at: port) == "200")
            // The control socket has streams of its own.
            #expect(try await server.lines(of: path).output.contains("schema_version"))
            // The head of a stream takes no room.
            try await channels[0].close()
            #expect(try await eventually { server.box.readings.readers == 3 })
            for _ in 0..<3 {
                let head = try await Tool.run("curl", ["-sI", "http://127.0.0.1:\(port)\(path)"])
                #expect(head.output.contains(" 200 "))
            }
            #expect(server.box.readings.readers == 3)
            for channel in channels { try? await channel.close() }
        }
    }
}
