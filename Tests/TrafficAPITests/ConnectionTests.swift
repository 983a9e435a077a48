import Dispatch
import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing
import TrafficAPI
import TrafficFeed
import TrafficModel

/// Strangers share the listener over TCP. None of them may keep others out.
@Suite("Connections of strangers", .timeLimit(.minutes(60)))
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

    /// A connection that sends this and then nothing, and reads nothing. It may have to give way before it has sent
    /// anything: the server may come to know of an earlier connection later.
    private func stall(_ text: String, at port: UInt16) async throws -> any Channel {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(host: "127.0.0.1", port: Int(port)).get()
        if !text.isEmpty { try? await channel.writeAndFlush(ByteBuffer(string: text)) }
        return channel
    }

    /// A connection, and how many bytes come, piece by piece, until its end.
    private func client(at port: UInt16, reads: Bool) async throws -> (channel: any Channel, bytes: AsyncStream<Int>) {
        let (bytes, counting) = AsyncStream.makeStream(of: Int.self)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ByteCounter(counting))
                }
            }
            .connect(host: "127.0.0.1", port: Int(port)).get()
        return (channel, bytes)
    }

    private func status(_ path: String, at port: UInt16) async throws -> String {
        try await Tool.run(
            "curl",
            ["-s", "-o", "/dev/null", "--max-time", "3600", "-w", "%{http_code}", "http://127.0.0.1:\(port)\(path)"],
            mayFail: true
        ).output
    }

    /// So many processes that an answer fits into no socket's buffers.
    private static let large: Reading = {
        var reading = Fixture.reading()
        var process = Fixture.root
        reading.snapshot.processes = (1...30_000).map { pid in
            process.identity = ProcessIdentity(pid: Int32(pid), startBoottimeNanoseconds: 5)
            return process
        }
        return reading
    }()

    /// What a stranger sends, and after a moment once more.
    private static let texts = [
        ["", ""], ["GET /healthz HTTP/1.1\r\nHost: 127", ""],
        ["GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", ""],
        // The server answers before it has read the body.
        ["GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\n", "x"],
        ["GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", ""],
        ["GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", ""],
        ["GET /v1/stream?interval=3600 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", ""],
    ]

    @Test(
        "whoever says nothing, asks slowly, or does not read gives way, and others are answered",
        arguments: Self.texts
    )
    func strangers(texts: [String]) async throws {
        try await self.withServer { server, port in
            server.box.readings.publish(Self.large)
            var channels: [any Channel] = []
            for _ in 0..<20 {
                let channel = try await self.stall(texts[0], at: port)
                if !texts[1].isEmpty {
                    try await Task.sleep(for: .milliseconds(50))
                    try? await channel.writeAndFlush(ByteBuffer(string: texts[1]))
                }
                channels.append(channel)
            }
            for _ in 0..<5 { #expect(try await self.status("/healthz", at: port) == "200") }
            // Those who do not read hold the places until they give way.
            #expect(try await eventually { try await Self.connections(at: port) <= 8 })
            for channel in channels { try? await channel.close() }
        }
    }

    /// Established connections of the listener.
    private static func connections(at port: UInt16) async throws -> Int {
        let sockets = try await Tool.run("ss", ["-Htn", "state", "established", "src 127.0.0.1:\(port)"])
        return sockets.output.split(separator: "\n").count
    }

    @Test("an answer that a client reads slowly does not give way to another user's connections")
    func slowReader() async throws {
        var limits = ControlServer.Limits()
        (limits.connections, limits.idleTimeout, limits.stallTimeout) = (8, .seconds(3600), .seconds(3600))
        limits.payerPatience = .seconds(3600)
        let user = Mutex<UInt32>(1)
        try await TestServer.with(listen: Self.loopback, limits: limits, userOfPeer: { _, _ in user.withLock { $0 } }) {
            server in
            let port = try #require(server.endpoints.tcp?.port)
            server.box.readings.publish(Self.large)
            let request = "GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            let (reader, received) = try await self.client(at: port, reads: false)
            try await reader.writeAndFlush(ByteBuffer(string: request))
            #expect(try await eventually { try await Self.unread(at: port) == 1 })
            user.withLock { $0 = 2 }
            var channels: [any Channel] = []
            for _ in 0..<20 { channels.append(try await self.stall(request, at: port)) }
            #expect(try await self.status("/healthz", at: port) == "200")
            try await reader.setOption(.autoRead, value: true).get()
            let whole = try await Tool.run(
                "curl",
                ["-si", "-H", "Connection: close", "http://127.0.0.1:\(port)/v1/processes"]
            )
            #expect(await received.reduce(0, +) == whole.output.utf8.count)
            for channel in channels { try? await channel.close() }
        }
    }

    @Test("whoever holds all places but one can't take that one from each other user")
    func lastPlace() async throws {
        var limits = ControlServer.Limits()
        (limits.connections, limits.idleTimeout, limits.stallTimeout) = (8, .seconds(3600), .seconds(3600))
        limits.payerPatience = .seconds(3600)
        let user = Mutex<UInt32>(1)
        let (asked, asking) = AsyncStream.makeStream(of: Void.self)
        let userOfPeer: ControlServer.UserOfPeer = { _, _ in
            defer { asking.yield() }
            return user.withLock { $0 }
        }
        try await TestServer.with(listen: Self.loopback, limits: limits, userOfPeer: userOfPeer) { server in
            let port = try #require(server.endpoints.tcp?.port)
            server.box.readings.publish(Self.large)
            let request = "GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            var known = asked.makeAsyncIterator()
            var channels: [any Channel] = []
            for _ in 0..<7 {
                channels.append(try await self.stall(request, at: port))
                _ = await known.next()
            }
            #expect(try await eventually { try await Self.unread(at: port) == 7 })
            user.withLock { $0 = 2 }
            // It has said nothing yet.
            let (honest, received) = try await self.client(at: port, reads: true)
            _ = await known.next()
            user.withLock { $0 = 1 }
            for _ in 0..<10 {
                channels.append(try await self.stall("", at: port))
                _ = await known.next()
            }
            try await honest.writeAndFlush(
                ByteBuffer(string: "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            )
            #expect(await received.reduce(0, +) > 0)
            for channel in channels { try? await channel.close() }
        }
    }

    @Test("a question about a connection's user that hangs keeps no connection waiting for its answer")
    func hangingQuestion() async throws {
        let (questions, asking) = AsyncStream.makeStream(of: Void.self)
        let hanging = DispatchGroup()
        hanging.enter()
        let userOfPeer: ControlServer.UserOfPeer = { _, _ in
            asking.yield()
            hanging.wait()
            return nil
        }
        var limits = ControlServer.Limits()
        limits.payerPatience = .milliseconds(100)
        try await TestServer.with(listen: Self.loopback, limits: limits, userOfPeer: userOfPeer) { server in
            defer { hanging.leave() }
            let port = try #require(server.endpoints.tcp?.port)
            server.box.readings.publish(Fixture.reading())
            let first = try await self.stall("", at: port)
            var asked = questions.makeAsyncIterator()
            await asked.next()
            // Event loops go on: the control socket answers, and a page, which needs no payer.
            #expect(try await server.lines(of: "/v1/processes").output.contains("schema_version"))
            #expect(try await self.status("/", at: port) == "200")
            #expect(try await self.status("/v1/processes", at: port) == "200")
            try? await first.close()
        }
    }

    @Test("an answer that its payer has lost ends its connection")
    func lostAnswer() async throws {
        var limits = ControlServer.Limits()
        (limits.idleTimeout, limits.stallTimeout, limits.unreadOfPayer) = (.seconds(3600), .seconds(3600), 1)
        try await TestServer.with(listen: Self.loopback, limits: limits) { server in
            let port = try #require(server.endpoints.tcp?.port)
            server.box.readings.publish(Self.large)
            let (reader, received) = try await self.client(at: port, reads: false)
            let request = "GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            try await reader.writeAndFlush(ByteBuffer(string: request))
            #expect(try await eventually { try await Self.unread(at: port) == 1 })
            // Another target is another answer.
            let whole = try await Tool.run("curl", ["-s", "http://127.0.0.1:\(port)/v1/processes?format=json"])
            #expect(whole.output.contains("schema_version") && !whole.output.contains("\"status\""))
            try await reader.setOption(.autoRead, value: true).get()
            let length = await received.reduce(0, +)
            #expect(0 < length)
            #expect(length < whole.output.utf8.count)
        }
    }

    /// Counts what comes, until the end.
    private final class ByteCounter: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer

        private let receiving: AsyncStream<Int>.Continuation

        init(_ receiving: AsyncStream<Int>.Continuation) { self.receiving = receiving }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.receiving.yield(Self.unwrapInboundIn(data).readableBytes)
        }

        func channelInactive(context: ChannelHandlerContext) {
            self.receiving.finish()
            context.fireChannelInactive()
        }
    }

    /// Connections whose answers wait for their clients.
    private static func unread(at port: UInt16) async throws -> Int {
        let sockets = try await Tool.run("ss", ["-Htn", "state", "established", "src 127.0.0.1:\(port)"]).output
        return sockets.split(separator: "\n").count { line in
            line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 > 0
        }
    }

    @Test("eight answers that nobody reads do not keep the ninth client out")
    func unread() async throws {
        try await self.withServer { server, port in
            server.box.readings.publish(Self.large)
            var channels: [any Channel] = []
            for _ in 0..<8 {
                let request = "GET /v1/processes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                channels.append(try await self.stall(request, at: port))
            }
            // The answers have begun, and wait for room.
            #expect(try await eventually { try await Self.unread(at: port) == 8 })
            #expect(try await self.status("/healthz", at: port) == "200")
            for channel in channels { try? await channel.close() }
        }
    }

    @Test("a request that is being answered does not give way to connections that say nothing")
    func answered() async throws {
        try await self.withServer { server, port in
            server.box.readings.publish(Fixture.reading())
            async let stream = Tool.run(
                "curl",
                ["-sN", "--max-time", "3600", "http://127.0.0.1:\(port)/v1/stream?view=processes"],
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
