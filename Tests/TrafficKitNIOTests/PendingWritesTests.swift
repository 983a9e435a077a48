import NIOCore
import NIOPosix
import Synchronization
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitNIO

@Suite("Writes that the kernel has not taken", .timeLimit(.minutes(2)))
struct PendingWritesTests {
    @Test("what is taken comes out in its order, in any pieces, and what is not stays")
    func pieces() {
        let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        for piece in [1, 7, 999, 1_000, 1_001, 10_000] {
            var (writes, taken) = (PendingWrites(), [UInt8]())
            for start in stride(from: 0, to: bytes.count, by: 1_000) {
                writes.append(.byteBuffer(ByteBuffer(bytes: bytes[start..<start + 1_000])))
            }
            writes.flush()
            var left = bytes.count
            while left > 0 {
                left -= min(piece, left)
                for case .bytes(let buffer) in writes.take(leaving: left) { taken += buffer.readableBytesView }
                #expect(writes.flushedBytes == left && taken.count == bytes.count - left)
                #expect(writes.take(leaving: left).isEmpty)
            }
            #expect(taken == bytes)
        }
    }

    @Test("what was not flushed is not taken")
    func unflushed() {
        var writes = PendingWrites()
        writes.append(.byteBuffer(ByteBuffer(string: "abc")))
        writes.flush()
        writes.append(.byteBuffer(ByteBuffer(string: "de")))
        #expect(writes.flushedBytes == 3)
        #expect(writes.take(leaving: 2).count == 1 && writes.flushedBytes == 0)
        writes.flush()
        #expect(writes.flushedBytes == 2)
    }

    /// What the program handed to the kernel before it closed still arrives, and nothing else does.
    @Test("a body in one write of which the kernel takes a part: the peer gets as many bytes as are reported")
    func part() async throws {
        let size = 64 << 20  // more than a socket's buffers hold
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n"
        let records = Records()
        let monitor = TrafficMonitor()
        monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let (full, isFull) = AsyncStream<Void>.makeStream()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addTrafficHandlers(role: .server, monitor: monitor)
                    try pipeline.addHandler(Answer(head: answer, size: size) { isFull.yield() })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let received = Mutex(0)
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        Counter { count in received.withLock { $0 += count } }
                    )
                }
            }
            .connect(to: try #require(server.localAddress)).get()
        try await client.writeAndFlush(ByteBuffer(string: "GET /files/1 HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        // The server has closed: now it is read.
        for await _ in full { break }
        try await client.setOption(.autoRead, value: true).get()
        try await client.closeFuture.get()
        try await server.close()
        let count = UInt64(received.withLock { $0 })
        let response = try #require(records.responses.first)
        #expect(records.responses.count == 1 && response.isIncomplete)
        #expect(response.interval.bytes == count && response.messageBytes == count)
        #expect(response.bodyBytes > 0 && response.bodyBytes < UInt64(size))
    }

    @Test("a request that is flushed before there is a connection comes before its answer")
    func early() async throws {
        let (request, answer) = ("GET /early/1 HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n")
        let records = Records()
        let monitor = TrafficMonitor()
        monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answer(head: answer, size: 0) {})
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addTrafficHandlers(role: .client, monitor: monitor)
                    pipeline.writeAndFlush(NIOAny(ByteBuffer(string: request)), promise: nil)
                }
            }
            .connect(to: try #require(server.localAddress)).get()
        try await client.closeFuture.get()
        try await server.close()
        #expect(records.requests.map(\.messageBytes) == [UInt64(request.utf8.count)])
        #expect(records.requests.map(\.interval) == [.init(from: 0, to: UInt64(request.utf8.count))])
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(answer.utf8.count))])
        #expect(records.outcomes.map(\.ending) == [.ok] && records.outcomes.map(\.route) == ["/early/{id}"])
    }

    @Test("what is written after the end of the stream fails, and is in no report")
    func afterTheEnd() async throws {
        let (request, answer) = ("GET /late/1 HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n")
        let records = Records()
        let monitor = TrafficMonitor()
        monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addTrafficHandlers(role: .server, monitor: monitor)
                    try pipeline.addHandler(TwoAnswers(answer))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(to: try #require(server.localAddress)).get()
        try await client.writeAndFlush(ByteBuffer(string: request + request))
        try await client.closeFuture.get()
        while records.outcomes.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
        try await server.close()
        #expect(records.requests.count == 2)
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(answer.utf8.count))])
        #expect(records.outcomes.map(\.ending) == [.ok, .truncated])
    }

    @Test("a client that closes because the other side has ended has not given up", arguments: [5, 6])
    func halfClosed(declared: Int) async throws {
        // The first ends with its connection, the other one is cut.
        let length = declared == 5 ? "" : "Content-Length: \(declared)\r\n"
        let answer = "HTTP/1.1 200 OK\r\n\(length)\r\nhello"
        let records = Records()
        let monitor = TrafficMonitor()
        monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answer(head: answer, size: 0) {})
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addTrafficHandlers(role: .client, monitor: monitor)
                    try pipeline.addHandler(ClosingAtEnd())
                }
            }
            .connect(to: try #require(server.localAddress)).get()
        try await client.writeAndFlush(ByteBuffer(string: "GET /half/1 HTTP/1.1\r\nHost: h\r\n\r\n"))
        try await client.closeFuture.get()
        try await server.close()
        #expect(records.responses.map(\.bodyBytes) == [5])
        #expect(records.responses.map(\.isIncomplete) == [declared != 5])
        #expect(records.outcomes.map(\.ending) == [declared == 5 ? .ok : .truncated])
    }

    /// Answers, ends the stream, and answers once more.
    private final class TwoAnswers: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let answer: String

        init(_ answer: String) {
            self.answer = answer
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            context.writeAndFlush(Self.wrapOutboundOut(ByteBuffer(string: self.answer)), promise: nil)
            context.close(mode: .output, promise: nil)
            context.writeAndFlush(Self.wrapOutboundOut(ByteBuffer(string: self.answer)), promise: nil)
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
        }
    }

    private final class ClosingAtEnd: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
        }
    }

    /// Answers with more than the kernel takes, and closes.
    private final class Answer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let head: String
        private let size: Int
        private let done: () -> Void

        init(head: String, size: Int, done: @escaping () -> Void) {
            (self.head, self.size, self.done) = (head, size, done)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            context.write(Self.wrapOutboundOut(ByteBuffer(string: self.head)), promise: nil)
            let body = ByteBuffer(repeating: 0x78, count: self.size)
            context.writeAndFlush(Self.wrapOutboundOut(body), promise: nil)
            context.close(promise: nil)
            self.done()
        }
    }

    private final class Counter: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let count: (Int) -> Void

        init(_ count: @escaping (Int) -> Void) {
            self.count = count
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.count(Self.unwrapInboundIn(data).readableBytes)
        }
    }
}
