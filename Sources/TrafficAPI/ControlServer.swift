import Glibc
import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
public import ServiceLifecycle
import Synchronization
public import TrafficDocuments
public import TrafficFeed
public import TrafficModel

/// Why the control API is not available.
public enum ControlServerError: Error, Sendable, Hashable, CustomStringConvertible {
    /// - Parameter reason: The system's error message.
    case cannotListen(on: String, reason: String)

    public var description: String {
        switch self {
        case .cannotListen(let address, let reason): "can't listen on \(address): \(reason)"
        }
    }
}

/// Serves the control API on `control.sock`, and over TCP if `listen` is given, until it is shut down.
public struct ControlServer: Service {
    /// Asks the kernel which user has the other end of a TCP connection.
    ///
    /// - Returns: `nil` if the other end is on another host or in another network namespace.
    public typealias UserOfPeer =
        @Sendable (_ peer: TrafficModel.SocketAddress, _ own: TrafficModel.SocketAddress) -> UInt32?

    /// Where clients reach the server.
    public struct Endpoints: Sendable, Hashable {
        public var socketPath: String
        /// If port 0 was asked for, this has the port that the system chose.
        public var tcp: TrafficModel.SocketAddress?
    }

    /// Limits for clients.
    public struct Limits: Sendable {
        /// On each listener. Beyond: ``ConnectionPlaces``.
        public var connections = 512
        /// Answers without an end, on each listener. Beyond: ``StreamSlots``.
        public var streams = 64
        /// Bytes of answers that clients have not read, for one payer and for all, of both listeners: ``UnreadAnswers``.
        public var unreadOfPayer = 16 << 20
        public var unread = 64 << 20
        /// For a connection without a request, and for the headers of a request.
        public var idleTimeout = Duration.seconds(60)
        /// For the kernel to say whose a connection is: ``ConnectionPlaces``.
        public var payerPatience = Duration.seconds(1)
        /// For a client that does not read the answer that it asked for.
        public var stallTimeout = Duration.seconds(30)
        /// For unfinished requests when the daemon stops.
        public var shutdownTimeout = Duration.seconds(2)

        public init() {}
    }

    private let source: any ReadingSource
    private let cost: any CostSource
    private let history: (any HistorySource)?
    private let alerts: any AlertSource
    private let runtimeDirectory: RuntimeDirectory
    private let network: NetworkListener?
    /// Of both listeners.
    private let answers: UnreadAnswers
    private let measured = LastMeasurement()
    private let userOfPeer: UserOfPeer
    private let receivers: @Sendable () -> [PushStatus]
    private let limits: Limits
    private let logger: Logger
    private let onReady: @Sendable (Endpoints) async -> Void

    /// - Parameters:
    ///   - runtimeDirectory: Held for as long as this value lives.
    ///   - history: `nil`: the daemon keeps none.
    ///   - network: `nil`: no TCP listener.
    ///   - receivers: How the deliveries of metrics to each receiver go.
    ///   - userOfPeer: Who has the other end of a TCP connection.
    ///   - onReady: Called once, when all listeners accept connections: the daemon is ready.
    public init(
        source: any ReadingSource,
        cost: any CostSource,
        history: (any HistorySource)? = nil,
        alerts: any AlertSource,
        runtimeDirectory: RuntimeDirectory,
        network: NetworkListener?,
        receivers: @escaping @Sendable () -> [PushStatus] = { [] },
        userOfPeer: @escaping UserOfPeer = { _, _ in nil },
        limits: Limits = Limits(),
        logger: Logger,
        onReady: @escaping @Sendable (Endpoints) async -> Void = { _ in }
    ) {
        self.source = source
        self.cost = cost
        self.history = history
        self.alerts = alerts
        self.runtimeDirectory = runtimeDirectory
        self.network = network
        self.answers = UnreadAnswers(limits: .init(ofPayer: limits.unreadOfPayer, inAll: limits.unread))
        self.userOfPeer = userOfPeer
        self.receivers = receivers
        self.limits = limits
        self.logger = logger
        self.onReady = onReady
    }

    /// - Throws: ``ControlServerError`` if a listener can't be opened, ``RuntimeDirectoryError`` if the socket can't be
    ///   put in its place.
    public func run() async throws {
        defer { self.runtimeDirectory.removeSocket() }
        let startup = Startup()
        // control.sock is published last, because programs that wait for the daemon wait for control.sock.
        let (tcpBound, tcp) = AsyncStream.makeStream(of: TrafficModel.SocketAddress?.self)
        var services: [any Service] = []
        if let network {
            let listen = network.address
            services.append(
                try self.listener(
                    on: .hostname(listen.address.description, port: Int(listen.port)),
                    named: listen.description,
                    access: { .network(names: network.names, tokens: network.tokens, places: $0) },
                    server: network.server
                ) { channel in
                    tcp.yield(TrafficModel.SocketAddress(channel.localAddress) ?? listen)
                }
            )
        } else {
            tcp.yield(nil)
        }
        let access = ControlAPI.Access.credentials(
            AccessRule(daemonUID: geteuid(), group: self.runtimeDirectory.groupID)
        )
        services.append(
            try self.listener(
                on: .unixDomainSocket(path: self.runtimeDirectory.bindingPath),
                named: self.runtimeDirectory.controlSocketPath,
                access: { _ in access }
            ) { channel in
                guard let address = await tcpBound.first(where: { _ in true }) else { return }
                do throws(RuntimeDirectoryError) {
                    try self.runtimeDirectory.publishSocket()
                } catch {
                    startup.failure.withLock { $0 = error }
                    channel.close(promise: nil)
                    return
                }
                let path = self.runtimeDirectory.controlSocketPath
                self.logger.info(
                    "control API ready",
                    metadata: ["socket": "\(path)", "listen": "\(address?.description ?? "off")"]
                )
                await self.onReady(Endpoints(socketPath: path, tcp: address))
            }
        )
        var configuration = ServiceGroupConfiguration(services: services, logger: self.quietLogger)
        configuration.maximumGracefulShutdownDuration = self.limits.shutdownTimeout
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch {
            // If publishing the socket fails, the listener closes, and the group ends with a less exact error.
            throw startup.failure.withLock { $0 } ?? error
        }
    }

    private func listener(
        on address: BindAddress,
        named name: String,
        access: (ConnectionPlaces) -> ControlAPI.Access,
        server: (HTTPServerBuilder) throws -> HTTPServerBuilder = { $0 },
        onRunning: @escaping @Sendable (any Channel) async -> Void
    ) throws -> Listener {
        let stallTimeout = TimeAmount(self.limits.stallTimeout)
        let places = ConnectionPlaces(
            limit: self.limits.connections,
            patience: TimeAmount(self.limits.payerPatience),
            userOfPeer: self.userOfPeer
        )
        let http = HTTPServerBuilder.http1(
            configuration: HTTP1Channel.Configuration(
                additionalChannelHandlers: [
                    TargetHostHandler.installer(), places.handler(), StalledClientHandler(timeout: stallTimeout),
                ],
                idleTimeout: TimeAmount(self.limits.idleTimeout)
            )
        )
        let application = Application(
            router: ControlAPI.router(
                source: self.source,
                cost: self.cost,
                history: self.history,
                alerts: self.alerts,
                answers: self.answers,
                measured: self.measured,
                receivers: self.receivers,
                streams: StreamSlots(limit: self.limits.streams),
                access: access(places)
            ),
            server: try server(http),
            configuration: ApplicationConfiguration(
                address: address
            ),
            onServerRunning: onRunning,
            logger: self.quietLogger
        )
        return Listener(name: name, application: application)
    }

    /// The library's messages only from the level `notice` up: below that it logs, for example, the socket's path
    /// before the move.
    private var quietLogger: Logger {
        var logger = self.logger
        logger.logLevel = max(logger.logLevel, .notice)
        return logger
    }
}

/// A failure after listening had begun.
private final class Startup: Sendable {
    let failure = Mutex<RuntimeDirectoryError?>(nil)
}

/// One listener. Its error names the listener.
private struct Listener: Service {
    let name: String
    let application: Application<RouterResponder<ControlContext>>

    func run() async throws {
        do {
            try await self.application.run()
        } catch let error as IOError {
            throw ControlServerError.cannotListen(
                on: self.name,
                reason: unsafe String(cString: strerror(error.errnoCode))
            )
        }
    }
}

extension TrafficModel.SocketAddress {
    init?(_ address: NIOCore.SocketAddress?) {
        guard let address, let text = address.ipAddress, let ip = InternetAddress(text), let port = address.port else {
            return nil
        }
        self.init(address: ip, port: UInt16(truncatingIfNeeded: port))
    }
}
