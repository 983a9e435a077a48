import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import TestSupport
import Testing
import TrafficKit
import TrafficKitNIO
import TrafficKitTestSupport
import TrafficReport

/// A connection is counted from its beginning if a daemon or an observer listens then, or later if it can be joined.
@Suite("Connections with and without a listener")
struct ListenerTests {
    /// Takes the place of a TLS handler, and passes everything on unchanged.
    private final class Plain: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = IOData
    }

    /// A server's connection.
    private struct Connection {
        let channel = EmbeddedChannel()
        /// The answer that the call that added the handlers returned.
        var isCounted = false

        private var pipeline: ChannelPipeline.SynchronousOperations { self.channel.pipeline.syncOperations }

        /// Adds handlers as an app does that leaves the choice to the library.
        init(_ monitor: TrafficMonitor, isTLS: Bool) throws {
            let tls = isTLS ? Plain() : nil
            if let tls { try self.pipeline.addHandler(tls) }
            self.isCounted = try self.pipeline.addTrafficHandlers(
                role: .server,
                version: .http1,
                monitor: monitor,
                behind: tls,
                tlsEndedAt: 0
            )
        }

        /// Adds handlers as an app does that makes its pipelines itself.
        init(_ monitor: TrafficMonitor, isTLS: Bool, _ version: TrafficHTTPHandler.Version) throws {
            let counter = isTLS ? TrafficTLSHandler() : nil
            if let counter { try self.pipeline.addHandlers([counter, Plain()]) }
            try self.pipeline.addHandler(
                TrafficHTTPHandler(role: .server, version: version, monitor: monitor, tls: counter)
            )
        }

        /// The number of our handlers in the pipeline.
        var handlers: Int {
            let hasHTTP = (try? self.pipeline.handler(type: TrafficHTTPHandler.self)) != nil
            let hasTLS = (try? self.pipeline.handler(type: TrafficTLSHandler.self)) != nil
            return (hasHTTP ? 1 : 0) + (hasTLS ? 1 : 0)
        }

        func exchange(_ path: String) throws {
            try self.pass(ListenerTests.request(path), ListenerTests.response)
        }

        /// An exchange with HTTP/2: `GET /`, once on a connection.
        func exchange2() throws {
            // RFC 9113 sections 3.4, 4.1 and 6.2; fields of RFC 7541 appendix A.
            let fields: [UInt8] = [0x82, 0x86, 0x84, 0x41, 1, UInt8(ascii: "h")]
            let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
            let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
            try self.pass(
                ByteBuffer(bytes: preface + settings + [0, 0, UInt8(fields.count), 1, 5, 0, 0, 0, 1] + fields),
                ByteBuffer(bytes: settings + [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88])
            )
        }

        /// Passes a request and a response, which must come out unchanged.
        func pass(_ request: ByteBuffer, _ response: ByteBuffer) throws {
            try self.channel.writeInbound(request)
            #expect(try self.channel.readInbound(as: ByteBuffer.self) == request)
            try self.channel.writeOutbound(IOData.byteBuffer(response))
            #expect(try self.channel.readOutbound(as: IOData.self) == .byteBuffer(response))
        }

        func close() throws {
            #expect(try self.channel.finish(acceptAlreadyClosed: true).isClean)
        }
    }

    private static func request(_ path: String) -> ByteBuffer {
        ByteBuffer(string: "GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
    }
    private static let response = ByteBuffer(string: "HTTP/1.1 204 No Content\r\n\r\n")

    @Test("a pipeline gets our handlers while there is a daemon, or may be one", arguments: [false, true])
    func added(isTLS: Bool) async throws {
        let daemon = try LateDaemon()
        let count = isTLS ? 2 : 1
        let isCounted = {
            let connection = try Connection(daemon.monitor, isTLS: isTLS)
            return connection.isCounted && connection.handlers == count
        }
        #expect(try isCounted())
        #expect(daemon.giveUp())
        let uncounted = try Connection(daemon.monitor, isTLS: isTLS)
        #expect(uncounted.isCounted && uncounted.handlers == count)  // a daemon may come
        let http2 = EmbeddedChannel()
        let isAdded = try http2.pipeline.syncOperations.addTrafficHandlers(
            role: .server,
            version: .http2,
            monitor: daemon.monitor,
            behind: nil,
            tlsEndedAt: 0
        )
        #expect(!isAdded)
        let receiver = try daemon.come()
        #expect(daemon.lookAgain())
        #expect(try isCounted())
        daemon.monitor.stop()
        try await receiver.stop()
        // The app may start the monitor again while the connection lasts.
        #expect(try isCounted())
    }

    @Test(
        "without a listener, handlers that an app adds itself stay, change nothing and report nothing",
        arguments: [false, true],
        [TrafficHTTPHandler.Version.http1, .http2]
    )
    func addedByHand(isTLS: Bool, version: TrafficHTTPHandler.Version) async throws {
        let daemon = try LateDaemon()
        let exchange = { (connection: Connection) in
            if version == .http2 { try connection.exchange2() } else { try connection.exchange("/") }
        }
        let counted = try Connection(daemon.monitor, isTLS: isTLS, version)
        #expect(daemon.giveUp())
        let connection = try Connection(daemon.monitor, isTLS: isTLS, version)
        // The app may have placed its own handlers relative to these.
        #expect(connection.handlers == (isTLS ? 2 : 1))
        let receiver = try daemon.come()
        // HTTP/2 is never joined. HTTP/1.x is joined only at the first request after the monitor finds a listener.
        #expect(daemon.lookAgain())
        try exchange(connection)
        try connection.close()
        try exchange(counted)
        try counted.close()
        daemon.monitor.stop()
        #expect(try await receiver.stop().outcomes.count == 1)
    }

    @Test("a connection that was counted when it began stays counted when listeners come and go")
    func stays() async throws {
        let daemon = try LateDaemon()
        let connection = try Connection(daemon.monitor, isTLS: false)
        try connection.exchange("/gone")
        #expect(daemon.giveUp())
        try connection.exchange("/gone")
        let receiver = try daemon.come()
        #expect(daemon.lookAgain())
        try connection.exchange("/back/1")
        try connection.close()
        daemon.monitor.stop()
        let records = try await receiver.stop().all
        let places = records.messages.filter { $0.route == "/back/{id}" }.map(\.interval)
        let (before, request) = (2 * Self.request("/gone").readableBytes, Self.request("/back/1").readableBytes)
        let response = Self.response.readableBytes
        #expect(
            places == [
                .init(from: UInt64(before), to: UInt64(before + request)),
                .init(from: UInt64(2 * response), to: UInt64(3 * response)),
            ]
        )
    }

    @Test(
        "a body that looks like a request is not taken for a request, and later exchanges are joined",
        arguments: [false, true]
    )
    func lookalike(isTLS: Bool) async throws {
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let connection = try Connection(daemon.monitor, isTLS: isTLS)
        let receiver = try daemon.come()
        #expect(daemon.lookAgain())
        try connection.exchange("/before")
        // The answer begins before all of the body has come.
        try connection.pass(ByteBuffer(string: "GET /fake HTTP/1.1\r\n\r\nbody\r\n"), Self.response)
        for _ in 0..<3 { try connection.exchange("/after") }
        try connection.close()
        daemon.monitor.stop()
        let messages = try await receiver.stop().all.messages
        let routes = messages.map { $0.route + ($0.status == 0 ? "" : " answered") }
        #expect(routes == ["/after", "/after answered", "/after", "/after answered", "/after", "/after answered"])
    }

    @Test("after a while the handlers give up on a connection that is never in step, and the connection goes on")
    func neverInStep() async throws {
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let connection = try Connection(daemon.monitor, isTLS: false)
        let receiver = try daemon.come()
        #expect(daemon.lookAgain())
        try connection.exchange("/before")
        for _ in 0..<20 { try connection.pass(ByteBuffer(string: "GET /fake HTTP/1.1\r\n\r\nbody\r\n"), Self.response) }
        for _ in 0..<3 { try connection.exchange("/after") }
        try connection.close()
        daemon.monitor.stop()
        #expect(try await receiver.stop().all.isEmpty)
    }

    @Test("our handlers keep no closed channel alive")
    func ends() async throws {
        let monitor = TrafficMonitor()
        let handlers = Mutex<[NIOLoopBound<TrafficHTTPHandler>]>([])
        weak var closed: (any Channel)?
        do {
            let server = try RawServer { $0.readToEnd() }
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let handler = TrafficHTTPHandler(role: .client, monitor: monitor)
                        let kept = NIOLoopBound(handler, eventLoop: channel.eventLoop)
                        handlers.withLock { $0.append(kept) }
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                }
                .connect(host: "127.0.0.1", port: server.port).get()
            closed = channel
            try await channel.writeAndFlush(Self.request("/"))
            try await channel.close()
            server.stop()
        }
        // The event loop keeps the channel until the loop is done with it.
        #expect(try await eventually { closed == nil })
        // An app may keep its handlers longer.
        #expect(handlers.withLock { $0.count } == 1)
    }
}
