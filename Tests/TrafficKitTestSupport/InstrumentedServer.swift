public import NIOCore
import NIOHTTP1
import NIOPosix
public import NIOSSL
import Synchronization
import TrafficKit
import TrafficKitNIO

/// An HTTP/1.1 server of NIO with our handler at the head of its pipelines.
///
/// `/length/N` answers N bytes with a length, `/chunked/N` the same in chunks, `/status/N` with that status and nothing else.
public final class InstrumentedServer: Sendable {
    /// The ends of the connections that were accepted.
    private final class Connections: Sendable {
        let ends = Mutex<[EventLoopFuture<Void>]>([])
    }

    public let channel: any Channel
    public let records = Records()
    private let monitor = TrafficMonitor()
    private let connections = Connections()

    /// - Parameter reportSocket: The daemon's; nowhere without one.
    public init(
        tls configuration: TLSConfiguration? = nil,
        reportingTo reportSocket: String = "/nowhere/report.sock"
    ) async throws {
        let tls = try configuration.map { try NIOSSLContext(configuration: $0) }
        self.monitor.start(.init(socketPath: reportSocket, observers: [self.records]))
        let (monitor, connections) = (self.monitor, self.connections)
        self.channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                connections.ends.withLock { $0.append(channel.closeFuture) }
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let counter = tls.map { _ in TrafficTLSHandler() }
                    if let counter { try pipeline.addHandler(counter) }
                    if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
                    try pipeline.addHandler(TrafficHTTP1Handler(role: .server, monitor: monitor, tls: counter))
                    try pipeline.configureHTTPServerPipeline()
                    try pipeline.addHandler(Responder())
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    public var port: Int { self.channel.localAddress!.port! }
    public var url: String { "http://127.0.0.1:\(self.port)" }

    /// When the clients have closed all connections: a client may have its response before the server knows that it was sent.
    public func stop() async throws {
        for end in self.connections.ends.withLock({ $0 }) { try await end.get() }
        try await self.channel.close()
        self.monitor.stop()
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
        default: headers.add(name: "Transfer-Encoding", value: "chunked")
        }
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(Self.wrapOutboundOut(.head(head)), promise: nil)
        if parts.first != "status" && request.method != .HEAD {
            var left = count
            while left > 0 {
                let size = min(left, 7_001)
                let bytes = context.channel.allocator.buffer(repeating: UInt8(ascii: "x"), count: size)
                context.write(Self.wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
                left -= size
            }
        }
        let isLast = !request.isKeepAlive
        let written = context.eventLoop.makePromise(of: Void.self)
        let loopBound = NIOLoopBound(context, eventLoop: context.eventLoop)
        written.futureResult.whenSuccess { if isLast { loopBound.value.close(promise: nil) } }
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil)), promise: written)
    }
}
