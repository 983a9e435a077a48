public import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
public import NIOSSL
import Synchronization
import TrafficKit
import TrafficKitNIO

/// A server of NIO for HTTP/1.1 and HTTP/2, with TrafficKit's handlers in its pipelines.
///
/// `/length/N` answers N bytes with a length. `/chunked/N` answers the same in chunks. `/status/N` answers with that
/// status and nothing else.
public final class InstrumentedServer: Sendable {
    /// The ends of the connections that were accepted.
    private final class Connections: Sendable {
        let ends = Mutex<[EventLoopFuture<Void>]>([])
    }

    public let channel: any Channel
    /// What the server reported, after ``stop()``.
    public let records = Records()
    /// `nil`: the server reports to another daemon.
    private let daemon: ReadingDaemon?
    private let monitor: TrafficMonitor
    private let connections = Connections()

    /// - Parameters:
    ///   - configuration: With `h2` among its protocols, clients that ask for HTTP/2 get HTTP/2.
    ///   - isHTTP2: HTTP/2 without TLS. Clients must know that (RFC 9113 section 3.3).
    ///   - path: The path of a Unix socket, in place of a port.
    ///   - late: The daemon that the server reports to. `records` then stays empty.
    ///   - reportSocket: The socket of the daemon that the server reports to. `records` then observes. `nil`: the server
    ///     reports to a daemon of its own and nobody observes, as in most programs.
    public init(
        tls configuration: TLSConfiguration? = nil,
        isHTTP2: Bool = false,
        at path: String? = nil,
        late: LateDaemon? = nil,
        reportingTo reportSocket: String? = nil
    ) async throws {
        let tls = try configuration.map { configuration in
            var configuration = configuration
            // A client's closure alert that comes later is not read, but a proxy counts it. The usual 5 seconds may
            // pass on a busy machine.
            configuration.shutdownTimeout = .minutes(10)
            return try NIOSSLContext(configuration: configuration)
        }
        self.monitor = late?.monitor ?? TrafficMonitor()
        self.daemon = late == nil && reportSocket == nil ? try ReadingDaemon(self.records) : nil
        if let daemon {
            try self.monitor.start(.init(socketPath: daemon.path))
        } else if let reportSocket {
            try self.monitor.start(.init(socketPath: reportSocket, observers: [self.records]))
        }
        let (monitor, connections) = (self.monitor, self.connections)
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                connections.ends.withLock { $0.append(channel.closeFuture) }
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let handler = tls.map { NIOSSLServerHandler(context: $0) }
                    if let handler { try pipeline.addHandler(handler) }
                    try pipeline.addTrafficHandlers(
                        role: .server,
                        version: isHTTP2 ? .http2 : .http1,
                        monitor: monitor,
                        behind: handler
                    )
                }.flatMap {
                    if tls != nil {
                        channel.configureHTTP2SecureUpgrade(
                            h2ChannelConfigurator: Self.configureHTTP2,
                            http1ChannelConfigurator: Self.configureHTTP1
                        )
                    } else {
                        isHTTP2 ? Self.configureHTTP2(channel) : Self.configureHTTP1(channel)
                    }
                }
            }
        self.channel =
            if let path {
                try await bootstrap.bind(unixDomainSocketPath: path, cleanupExistingSocketFile: true).get()
            } else {
                try await bootstrap.bind(host: "127.0.0.1", port: 0).get()
            }
    }

    private static func configureHTTP1(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.configureHTTPServerPipeline()
            try channel.pipeline.syncOperations.addHandler(Responder())
        }
    }

    private static func configureHTTP2(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.configureHTTP2Pipeline(mode: .server) { stream in
            stream.eventLoop.makeCompletedFuture {
                try stream.pipeline.syncOperations.addHandlers(HTTP2FramePayloadToHTTP1ServerCodec(), Responder())
            }
        }.map { _ in }
    }

    public var port: Int { self.channel.localAddress!.port! }
    public var url: String { "http://127.0.0.1:\(self.port)" }

    /// Waits until the clients have closed all connections, because a client may have its response before the server
    /// knows that the response was sent.
    public func stop() async throws {
        for end in self.connections.ends.withLock({ $0 }) { try await end.get() }
        try await self.channel.close()
        self.monitor.stop()
        try await self.daemon?.stop()
    }
}

private final class Responder: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private var head: HTTPRequestHead?

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch Self.unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body: break
        case .end:
            guard let head else { return }
            self.answer(head, context)
            self.head = nil
        }
    }

    private func answer(_ request: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let parts = request.uri.prefix { $0 != "?" }.split(separator: "/")
        let count = parts.count > 1 ? Int(parts[1]) ?? 0 : 0
        var status = HTTPResponseStatus.ok
        var headers: HTTPHeaders = [
            "Content-Type": "application/json", "Set-Cookie": "a=b", "set-cookie": "c=d; Path=/",
        ]
        switch parts.first {
        case "length": headers.add(name: "Content-Length", value: "\(count)")
        case "status":
            status = HTTPResponseStatus(statusCode: count)
            if status.mayHaveResponseBody { headers.add(name: "Content-Length", value: "0") }
        default: if request.version.major == 1 { headers.add(name: "Transfer-Encoding", value: "chunked") }
        }
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(Self.wrapOutboundOut(.head(head)), promise: nil)
        if parts.first != "status" && request.method != .HEAD {
            var left = count
            let piece = context.channel.allocator.buffer(repeating: UInt8(ascii: "x"), count: min(count, 7_001))
            while left > 0 {
                var bytes = piece
                bytes.moveWriterIndex(to: min(left, bytes.writerIndex))
                context.write(Self.wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
                left -= bytes.readableBytes
            }
        }
        let isLast = request.version.major == 1 && !request.isKeepAlive
        let written = context.eventLoop.makePromise(of: Void.self)
        let loopBound = NIOLoopBound(context, eventLoop: context.eventLoop)
        written.futureResult.whenSuccess { if isLast { loopBound.value.close(promise: nil) } }
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil)), promise: written)
    }
}
