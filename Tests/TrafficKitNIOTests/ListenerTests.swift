import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing
import TrafficKit
import TrafficKitNIO
import TrafficKitTestSupport
import TrafficReport

/// A connection is counted if somebody listens when it begins, or later, if that can be.
@Suite("Connections, and who listens")
struct ListenerTests {
    /// In a TLS handler's place: hands on what it is given.
    private final class Plain: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = IOData
    }

    /// A server's.
    private struct Connection {
        let channel = EmbeddedChannel()
        /// As whoever added the handlers was told.
        var isCounted = false

        private var pipeline: ChannelPipeline.SynchronousOperations { self.channel.pipeline.syncOperations }

        /// As an app does it that has no more to say.
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

        /// As one does it that makes its pipelines itself.
        init(_ monitor: TrafficMonitor, isTLS: Bool, _ version: TrafficHTTPHandler.Version) throws {
            let counter = isTLS ? TrafficTLSHandler() : nil
            if let counter { try self.pipeline.addHandlers([counter, Plain()]) }
            try self.pipeline.addHandler(
                TrafficHTTPHandler(role: .server, version: version, monitor: monitor, tls: counter)
            )
        }

        /// Of ours.
        var handlers: Int {
            let hasHTTP = (try? self.pipeline.handler(type: TrafficHTTPHandler.self)) != nil
            let hasTLS = (try? self.pipeline.handler(type: TrafficTLSHandler.self)) != nil
            return (hasHTTP ? 1 : 0) + (hasTLS ? 1 : 0)
        }

        func exchange(_ path: String) throws {
            try self.pass(ListenerTests.request(path), ListenerTests.response)
        }

        /// With HTTP/2: `GET /`, once on a connection.
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

        /// What passes comes out as it was put in.
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
    func added(isTLS: Bool) throws {
        let daemon = try LateDaemon()
        let count = isTLS ? 2 : 1
        let isCounted = {
            let connection = try Connection(daemon.monitor, isTLS: isTLS)
            return connection.isCounted && connection.handlers == count
        }
        #expect(try isCounted())
        #expect(daemon.giveUp())
        let uncounted = try Connection(daemon.monitor, isTLS: isTLS)
        #expect(uncounted.isCounted && uncounted.handlers == count)  // it may be
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
        try withExtendedLifetime(receiver) {
            let isCounted = try isCounted()
            #expect(isCounted)
        }
        daemon.monitor.stop()
        // It may be started while the connection lasts.
        #expect(try isCounted())
    }

    @Test(
        "handlers that an app adds itself stay where nobody listens: what passes is the same, and nothing is reported",
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
        // The app may have placed its own by these.
        #expect(connection.handlers == (isTLS ? 2 : 1))
        let receiver = try daemon.come()
        // HTTP/2 never is, HTTP/1.x not before the first request after the listener was found.
        #expect(daemon.lookAgain())
        try exchange(connection)
        try connection.close()
        try exchange(counted)
        try counted.close()
        daemon.monitor.stop()
        let records = try await receiver.everything().records
        #expect(records.count { if case .outcome = $0 { true } else { false } } == 1)
    }

    @Test("a connection that was counted when it began stays so, whoever comes and goes")
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
        let records = try await receiver.everything().records
        let places = records.compactMap { record -> Report.Interval? in
            switch record {
            case .request(let it) where it.route == "/back/{id}": it.interval
            case .response(let it) where it.route == "/back/{id}": it.interval
            default: nil
            }
        }
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
        "a body that says what a request does is not taken for one, and what comes after it is joined",
        arguments: [false, true]
    )
    func lookalike(isTLS: Bool) async throws {
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let connection = try Connection(daemon.monitor, isTLS: isTLS)
        let receiver = try daemon.come()
        #expect(daemon.lookAgain())
        try connection.exchange("/before")
        // An answer has begun before all of the body had come.
        try connection.pass(ByteBuffer(string: "GET /fake HTTP/1.1\r\n\r\nbody\r\n"), Self.response)
        for _ in 0..<3 { try connection.exchange("/after") }
        try connection.close()
        daemon.monitor.stop()
        let routes = try await receiver.everything().records.compactMap { record in
            switch record {
            case .request(let message), .response(let message): message.route + (message.status == 0 ? "" : " answered")
            default: nil as String?
            }
        }
        #expect(routes == ["/after", "/after answered", "/after", "/after answered", "/after", "/after answered"])
    }

    @Test("a connection that never is in step is left alone after a while, and goes on")
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
        #expect(try await receiver.everything().records.isEmpty)
    }

    @Test("nothing of ours keeps a channel that is closed")
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
        // The loop has it until it has done with it.
        for _ in 0..<6_000 where closed != nil { try await Task.sleep(for: .milliseconds(5)) }
        // An app may keep its handlers longer.
        #expect(handlers.withLock { $0.count } == 1)
        #expect(closed == nil)
    }
}
