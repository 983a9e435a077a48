import NIOCore
import NIOPosix
import NIOSSL
import Testing
import TrafficKit
import TrafficKitNIO
import TrafficKitTestSupport
import TrafficReport

/// A client and a server of ours that change to another protocol, with a proxy between them that counts the socket's
/// bytes.
@Suite("Upgrades of HTTP/1.1", .timeLimit(.minutes(60)))
struct UpgradeTests {
    private static let request =
        "GET /chat/1?secret=1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    private static let answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    /// The first thing that the server sends, in the segment of its answer: a text frame.
    private static let greeting: [UInt8] = [0x81, 5] + Array("hello".utf8)
    /// Frames that look like messages, and meaningless bytes. None of them is a message.
    private static let frames: [[UInt8]] =
        [Array(Self.request.utf8), Array(Self.answer.utf8), [0x81, 0x80, 1, 2, 3, 4]]
        + (1...40).map { [UInt8](repeating: UInt8($0), count: $0 * 997) }

    @Test("after 101 all is opaque on both sides, and every byte is explained", arguments: [false, true])
    func websocket(isEncrypted: Bool) async throws {
        let certificates = try await Certificates.local
        var serverConfiguration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
        )
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(certificates.authority)
        // Where the other side's closure alert takes longer than this, a side closes without reading it, but the proxy has
        // counted it. The usual 5 seconds may pass on a busy machine.
        serverConfiguration.shutdownTimeout = .minutes(10)
        configuration.shutdownTimeout = .minutes(10)
        let serverTLS = try NIOSSLContext(configuration: serverConfiguration)
        let clientTLS = try NIOSSLContext(configuration: configuration)
        let (here, there) = (Records(), Records())
        let (hereMonitor, thereMonitor) = (try Self.monitor(here), try Self.monitor(there))
        let (accepted, accept) = AsyncStream<any Channel>.makeStream()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                accept.yield(channel)
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let tls = isEncrypted ? NIOSSLServerHandler(context: serverTLS) : nil
                    if let tls { try pipeline.addHandler(tls) }
                    try pipeline.addTrafficHandlers(role: .server, monitor: thereMonitor, behind: tls)
                    try pipeline.addHandler(Switch(answer: Array(Self.answer.utf8) + Self.greeting))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let proxy = try CountingProxy(to: try #require(server.localAddress?.port))
        let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let tls =
                        isEncrypted
                        ? try NIOSSLClientHandler(context: clientTLS, serverHostname: "localhost") : nil
                    if let tls { try pipeline.addHandler(tls) }
                    try pipeline.addTrafficHandlers(role: .client, monitor: hereMonitor, behind: tls)
                    try pipeline.addHandler(
                        Talk(
                            request: Array(Self.request.utf8),
                            answer: Self.answer.utf8.count + Self.greeting.count,
                            frames: Self.frames
                        )
                    )
                }
            }
            .connect(host: "127.0.0.1", port: proxy.port).get()
        try await client.closeFuture.get()
        for await channel in accepted {
            try await channel.closeFuture.get()
            break
        }
        let bytes = await proxy.stop()
        try await server.close()

        let payload = UInt64(Self.frames.reduce(0) { $0 + $1.count })
        let greeting = UInt64(Self.greeting.count)
        #expect(bytes.count == 1 && here.bytes(role: .client) == bytes.first)
        #expect(there.bytes(role: .server) == bytes.first)
        for records in [here, there] {
            #expect(records.requests.map(\.messageBytes) == [UInt64(Self.request.utf8.count)])
            #expect(records.responses.map(\.messageBytes) == [UInt64(Self.answer.utf8.count)])
            #expect(records.responses.map(\.status) == [101] && records.outcomes.map(\.ending) == [.ok])
            #expect(records.requests.map(\.route) == ["/chat/{id}"])
            let connection = try #require(records.connections.values.first)
            let isClient = connection.role == .client
            #expect(records.outcomes.map { $0.tlsEndedAt != 0 } == [isClient && isEncrypted])
            #expect(records.outcomes.allSatisfy { $0.tlsEndedAt <= $0.startedAt })
            #expect(isClient == (records === here) && records.connections.count == 1)
            let (asked, answered) =
                isClient
                ? (connection.sent, connection.received) : (connection.received, connection.sent)
            #expect(asked.opaque == payload && answered.opaque == payload + greeting)
            for remainder in [asked, answered] {
                #expect(remainder.framing == 0 && remainder.excluded == 0 && (remainder.tls > 0) == isEncrypted)
            }
        }
    }

    private static func monitor(_ records: Records) throws -> TrafficMonitor {
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        return monitor
    }
}

/// A server: answers the first head, then sends back everything that comes.
private final class Switch: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: [UInt8]
    private var head: [UInt8]? = []

    init(answer: [UInt8]) {
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var buffer = Self.unwrapInboundIn(data)
        while var head = self.head, let byte = buffer.readInteger(as: UInt8.self) {
            head.append(byte)
            self.head = head
            guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) else { continue }
            self.head = nil
            context.writeAndFlush(Self.wrapOutboundOut(ByteBuffer(bytes: self.answer)), promise: nil)
        }
        if buffer.readableBytes > 0 { context.writeAndFlush(Self.wrapOutboundOut(buffer), promise: nil) }
    }
}

/// A client: sends a request, sends the frames after the answer, and closes when the frames have come back.
private final class Talk: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let request: [UInt8]
    private let frames: [[UInt8]]
    private var untilAnswered: Int
    private var untilDone: Int

    init(request: [UInt8], answer: Int, frames: [[UInt8]]) {
        (self.request, self.frames) = (request, frames)
        self.untilAnswered = answer
        self.untilDone = answer + frames.reduce(0) { $0 + $1.count }
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(Self.wrapOutboundOut(ByteBuffer(bytes: self.request)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = Self.unwrapInboundIn(data).readableBytes
        let hadAnswer = self.untilAnswered <= 0
        self.untilAnswered -= count
        self.untilDone -= count
        if !hadAnswer && self.untilAnswered <= 0 {
            for frame in self.frames {
                context.writeAndFlush(Self.wrapOutboundOut(ByteBuffer(bytes: frame)), promise: nil)
            }
        }
        if self.untilDone <= 0 { context.close(promise: nil) }
    }
}
