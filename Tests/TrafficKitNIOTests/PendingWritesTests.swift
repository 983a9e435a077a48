import NIOCore
import NIOEmbedded
import NIOHTTP2
import NIOPosix
import Synchronization
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitNIO

@Suite("Writes that the kernel has not taken", .timeLimit(.minutes(60)))
struct PendingWritesTests {
    @Test("taken bytes come out in order, in any pieces, and other bytes stay")
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
                taken += Self.take(&writes, leaving: left).flatMap { Array(buffer: $0) }
                #expect(writes.flushedBytes == left && taken.count == bytes.count - left)
                #expect(Self.take(&writes, leaving: left) == [])
            }
            #expect(taken == bytes)
        }
    }

    @Test("bytes that were not flushed are not taken")
    func unflushed() {
        var writes = PendingWrites()
        writes.append(.byteBuffer(ByteBuffer(string: "abc")))
        writes.flush()
        writes.append(.byteBuffer(ByteBuffer(string: "de")))
        #expect(writes.flushedBytes == 3)
        #expect(Self.take(&writes, leaving: 2) == [ByteBuffer(string: "abc")] && writes.flushedBytes == 0)
        writes.flush()
        #expect(writes.flushedBytes == 2)
    }

    @Test("plaintext is encrypted once, also if its place is not known yet")
    func encrypted() {
        var writes = PendingWrites()
        writes.append(.byteBuffer(ByteBuffer(string: "abc")))
        writes.flush()
        #expect(writes.encrypt() == 3 && writes.encrypt() == 0)
        writes.sent(encrypted: 3)
        #expect(writes.encrypt() == 0 && writes.unplacedBytes == 3)
        writes.append(.byteBuffer(ByteBuffer(string: "de")))
        writes.flush()
        #expect(writes.encrypt() == 2)
        #expect(Self.take(&writes, leaving: 2) == [ByteBuffer(string: "abc")])
        #expect(writes.encrypt() == 0 && writes.unplacedBytes == 0)
    }

    private static func take(_ writes: inout PendingWrites, leaving rest: Int) -> [ByteBuffer] {
        var taken: [ByteBuffer] = []
        writes.take(writes.bytes - rest) { taken.append($0.buffer) }
        return taken
    }

    /// Runs a server and a client on loopback until the client's connection is closed.
    ///
    /// - Parameters:
    ///   - isHalfClosable: The end of one direction does not end the connection.
    ///   - observer: Sees each record before the record is noted.
    ///   - server: Adds handlers to each connection of the server.
    ///   - body: What the client does once the client is connected.
    /// - Returns: The reported records.
    private static func run(
        isHalfClosable: Bool = false,
        observer: (any TrafficObserver)? = nil,
        server: @escaping @Sendable (any Channel, TrafficMonitor) throws -> Void,
        client: @escaping @Sendable (any Channel, TrafficMonitor) throws -> Void,
        _ body: (any Channel) async throws -> Void = { _ in }
    ) async throws -> Records {
        let records = Records()
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [observer, records].compactMap(\.self)))
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.allowRemoteHalfClosure, value: isHalfClosable)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try server(channel, monitor) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let connection = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: isHalfClosable)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try client(channel, monitor) }
            }
            .connect(to: try #require(listener.localAddress)).get()
        try await body(connection)
        try await connection.closeFuture.get()
        try await listener.close()
        return records
    }

    private static func request(_ target: String) -> String { "GET \(target) HTTP/1.1\r\nHost: h\r\n\r\n" }
    private static let noContent = "HTTP/1.1 204 No Content\r\n\r\n"

    /// The bytes that the program handed to the kernel before it closed still arrive, and no other bytes.
    @Test("if the kernel takes a part of a body in one write, the peer gets as many bytes as are reported")
    func part() async throws {
        let size = 64 << 20  // more than a socket's buffers hold
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n"
        let (full, isFull) = AsyncStream<Void>.makeStream()
        let received = Mutex(0)
        let records = try await Self.run { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .server, monitor: monitor)
            try channel.pipeline.syncOperations.addHandler(
                Answer { context in
                    context.write(NIOAny(ByteBuffer(string: answer)), promise: nil)
                    context.writeAndFlush(NIOAny(ByteBuffer(repeating: 0x78, count: size)), promise: nil)
                    context.close(promise: nil)
                    isFull.yield()
                }
            )
        } client: { channel, _ in
            try channel.syncOptions?.setOption(.autoRead, value: false)
            try channel.pipeline.syncOperations.addHandler(Counter { count in received.withLock { $0 += count } })
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/files/1")))
            // The server has closed. Only now does the client read.
            for await _ in full { break }
            try await client.setOption(.autoRead, value: true).get()
        }
        let count = UInt64(received.withLock { $0 })
        // The server's loop reports the end after it has closed.
        #expect(try await eventually { !records.outcomes.isEmpty })
        let response = try #require(records.responses.first)
        #expect(records.responses.count == 1 && response.isIncomplete)
        #expect(response.interval.bytes == count && response.messageBytes == count)
        #expect(response.bodyBytes > 0 && response.bodyBytes < UInt64(size))
    }

    @Test("with a full socket, bytes that the program has only written are not flushed")
    func unflushedRest() async throws {
        let size = 16 << 20  // written twice; the socket's buffers hold only a small part
        let (full, isFull) = AsyncStream<Void>.makeStream()
        let received = Mutex(0)
        let records = try await Self.run { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .server, monitor: monitor)
            try channel.pipeline.syncOperations.addHandler(
                Answer { context in
                    let head = ByteBuffer(string: "HTTP/1.1 200 OK\r\n\r\n")
                    context.write(NIOAny(head), promise: nil)
                    let body = NIOAny(ByteBuffer(repeating: 0x78, count: size))
                    context.writeAndFlush(body, promise: nil)
                    context.writeAndFlush(body, promise: nil)
                    context.write(NIOAny(ByteBuffer(repeating: 0x79, count: 1_000)), promise: nil)
                    isFull.yield()
                }
            )
        } client: { channel, _ in
            try channel.syncOptions?.setOption(.autoRead, value: false)
            try channel.pipeline.syncOperations.addHandler(Counter { count in received.withLock { $0 += count } })
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/rest/1")))
            for await _ in full { break }
            try await client.setOption(.autoRead, value: true).get()
            try #require(try await eventually { received.withLock { $0 } >= 2 * size + 19 })
            // Wait for bytes that must not come.
            try await Task.sleep(for: .milliseconds(100))
            try await client.close()
        }
        #expect(received.withLock { $0 } == 2 * size + 19)
        #expect(try await eventually(every: .milliseconds(5)) { !records.outcomes.isEmpty })
        #expect(records.responses.map(\.bodyBytes) == [UInt64(2 * size)])
    }

    /// These bytes have passed the place of the handlers, but the kernel has not taken them yet.
    @Test("bytes that the channel holds when counting begins come before the counted bytes")
    func before() async throws {
        let size = 64 << 20  // more than a socket's buffers hold
        let request = Self.request("/late/1")
        let (full, isFull) = AsyncStream<Bool>.makeStream()
        let received = Mutex(0)
        let records = try await Self.run { channel, monitor in
            try channel.pipeline.syncOperations.addHandler(
                Answer { context in
                    context.writeAndFlush(NIOAny(ByteBuffer(repeating: 0x78, count: size - 7)), promise: nil)
                    context.write(NIOAny(ByteBuffer(repeating: 0x78, count: 7)), promise: nil)
                    let pipeline = context.pipeline.syncOperations
                    let isAdded: Void? = try? pipeline.addTrafficHandlers(role: .client, monitor: monitor)
                    context.writeAndFlush(NIOAny(ByteBuffer(string: request)), promise: nil)
                    isFull.yield(isAdded != nil)
                }
            )
        } client: { channel, _ in
            try channel.syncOptions?.setOption(.autoRead, value: false)
            try channel.pipeline.syncOperations.addHandler(Counter { count in received.withLock { $0 += count } })
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: "?"))
            for await isAdded in full {
                #expect(isAdded)
                break
            }
            try await client.setOption(.autoRead, value: true).get()
            try #require(try await eventually { received.withLock { $0 } >= size + request.utf8.count })
            try await client.close()
        }
        #expect(try await eventually(every: .milliseconds(5)) { !records.outcomes.isEmpty })
        #expect(
            records.requests.map(\.interval) == [.init(from: UInt64(size), to: UInt64(size + request.utf8.count))]
        )
    }

    @Test("a request that is flushed before the connection exists comes before its answer")
    func early() async throws {
        let request = Self.request("/early/1")
        let records = try await Self.run { channel, _ in
            try channel.pipeline.syncOperations.addHandler(Answer.closing(Self.noContent))
        } client: { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .client, monitor: monitor)
            channel.pipeline.syncOperations.writeAndFlush(NIOAny(ByteBuffer(string: request)), promise: nil)
        }
        #expect(records.requests.map(\.messageBytes) == [UInt64(request.utf8.count)])
        #expect(records.requests.map(\.interval) == [.init(from: 0, to: UInt64(request.utf8.count))])
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(Self.noContent.utf8.count))])
        #expect(records.outcomes.map(\.ending) == [.ok] && records.outcomes.map(\.route) == ["/early/{id}"])
    }

    @Test("a write after the end of the stream fails, and is in no report")
    func afterTheEnd() async throws {
        let records = try await Self.run(isHalfClosable: true) { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .server, monitor: monitor)
            try channel.pipeline.syncOperations.addHandler(
                Answer { context in
                    context.writeAndFlush(NIOAny(ByteBuffer(string: Self.noContent)), promise: nil)
                    context.close(mode: .output, promise: nil)
                    context.writeAndFlush(NIOAny(ByteBuffer(string: Self.noContent)), promise: nil)
                }
            )
            try channel.pipeline.syncOperations.addHandler(ClosingAtEnd())
        } client: { channel, _ in
            try channel.pipeline.syncOperations.addHandler(ClosingAtEnd())
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/late/1") + Self.request("/late/2")))
        }
        #expect(try await eventually(every: .milliseconds(5)) { records.outcomes.count >= 2 })
        #expect(records.requests.count == 2)
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(Self.noContent.utf8.count))])
        #expect(records.outcomes.map(\.ending) == [.ok, .truncated])
    }

    /// As Hummingbird answers a request with `Connection: close`.
    @Test("what the channel has left at a half-close is sent, and counts")
    func halfCloseWithRest() async throws {
        let body = 64 << 20  // more than a socket's buffers hold
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body)\r\n\r\n"
        let (ended, hasEnded) = AsyncStream<Void>.makeStream()
        let received = Mutex(0)
        let records = try await Self.run(isHalfClosable: true) { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .server, monitor: monitor)
            try channel.pipeline.syncOperations.addHandler(
                Answer { context in
                    context.write(NIOAny(ByteBuffer(string: head)), promise: nil)
                    context.writeAndFlush(NIOAny(ByteBuffer(repeating: 120, count: body)), promise: nil)
                    context.close(mode: .output, promise: nil)
                    hasEnded.yield()
                }
            )
            try channel.pipeline.syncOperations.addHandler(ClosingAtEnd())
        } client: { channel, _ in
            try channel.syncOptions?.setOption(.autoRead, value: false)
            try channel.pipeline.syncOperations.addHandler(Counter { count in received.withLock { $0 += count } })
            try channel.pipeline.syncOperations.addHandler(ClosingAtEnd())
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/large")))
            // Only now does the client read.
            for await _ in ended { break }
            try await client.setOption(.autoRead, value: true).get()
        }
        #expect(try await eventually(every: .milliseconds(5)) { !records.outcomes.isEmpty })
        #expect(received.withLock { $0 } == head.utf8.count + body)
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(head.utf8.count + body))])
        #expect(records.outcomes.map(\.ending) == [.ok])
    }

    /// Without a length the body ends with the stream. With this length the body is cut off.
    @Test("a client that closes because the other side has ended did not cancel", arguments: [nil, 6])
    func halfClosed(length: Int?) async throws {
        let field = length.map { "Content-Length: \($0)\r\n" } ?? ""
        let records = try await Self.run(isHalfClosable: true) { channel, _ in
            try channel.pipeline.syncOperations.addHandler(Answer.closing("HTTP/1.1 200 OK\r\n\(field)\r\nhello"))
        } client: { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .client, monitor: monitor)
            try channel.pipeline.syncOperations.addHandler(ClosingAtEnd())
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/half/1")))
        }
        #expect(records.responses.map(\.bodyBytes) == [5])
        #expect(records.responses.map(\.isIncomplete) == [length != nil])
        #expect(records.outcomes.map(\.ending) == [length == nil ? .ok : .truncated])
    }

    @Test("an observer of a record may at once write on the record's connection")
    func observerWrites() async throws {
        let answering = AnsweringObserver(Self.noContent)
        let records = try await Self.run(observer: answering) { channel, monitor in
            try channel.pipeline.syncOperations.addTrafficHandlers(role: .server, monitor: monitor)
            answering.channel.withLock { $0 = channel }
        } client: { channel, _ in
            try channel.pipeline.syncOperations.addHandler(Answer { context in context.close(promise: nil) })
        } _: { client in
            try await client.writeAndFlush(ByteBuffer(string: Self.request("/at/once")))
        }
        #expect(try await eventually(every: .milliseconds(5)) { !records.outcomes.isEmpty })
        #expect(records.responses.map(\.interval) == [.init(from: 0, to: UInt64(Self.noContent.utf8.count))])
        #expect(records.requests.count == 1 && records.outcomes.map(\.ending) == [.ok])
    }

    @Test("a channel without a socket is not asked for its queue, because that would abort")
    func stream() throws {
        let channel = EmbeddedChannel()
        let http2 = NIOHTTP2Handler(mode: .client, eventLoop: channel.eventLoop) {
            $0.eventLoop.makeSucceededVoidFuture()
        }
        try channel.pipeline.syncOperations.addHandler(http2)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 80)).wait()
        let isAdded = Mutex(false)
        let stream = try http2.multiplexer.wait().createStreamChannel { stream in
            stream.eventLoop.makeCompletedFuture {
                try stream.pipeline.syncOperations.addHandler(TrafficHTTPHandler(role: .client))
                isAdded.withLock { $0 = true }
            }
        }
        channel.embeddedEventLoop.run()
        _ = try stream.wait()
        #expect(isAdded.withLock { $0 })
        _ = try? channel.finish()
    }

    /// Answers a request as soon as it is reported.
    private final class AnsweringObserver: TrafficObserver {
        let channel = Mutex<(any Channel)?>(nil)
        private let answer: String

        init(_ answer: String) {
            self.answer = answer
        }

        func observe(_ record: Report.Record) {
            guard case .exchange(let exchange) = record, !exchange.isOver, let channel = self.channel.withLock({ $0 })
            else { return }
            channel.writeAndFlush(ByteBuffer(string: self.answer), promise: nil)
        }
    }

    private final class Answer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let answer: (ChannelHandlerContext) -> Void

        init(_ answer: @escaping (ChannelHandlerContext) -> Void) {
            self.answer = answer
        }

        /// Sends `text`, and closes.
        static func closing(_ text: String) -> Answer {
            Answer { context in
                context.writeAndFlush(NIOAny(ByteBuffer(string: text)), promise: nil)
                context.close(promise: nil)
            }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            self.answer(context)
        }
    }

    /// Closes when the other side has ended.
    private final class ClosingAtEnd: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
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

extension IOData {
    fileprivate var buffer: ByteBuffer {
        if case .byteBuffer(let buffer) = self { buffer } else { ByteBuffer() }
    }
}
