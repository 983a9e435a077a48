import CommandOptions
import Logging
import ServiceLifecycle
import Synchronization
import TrafficAPI
import TrafficAlerts
import TrafficCapture
import TrafficConfiguration
import TrafficDocuments
import TrafficFeed
import TrafficHistory
import TrafficInbox
import TrafficLedger
import TrafficLimits
import TrafficModel
import TrafficPush
import UnixSignals

/// The parts of a daemon, put together as the configuration says. When this is made, the daemon has its runtime
/// directory, and the kernel counts.
struct Daemon {
    private let services: [any Service]
    /// Held as long as the daemon runs.
    private let pins: PinDirectory?
    private let notification: SystemdNotification
    private let configuration: Configuration
    /// Ends when the daemon is ready.
    private let start: AsyncStream<Never>
    /// Changes while the daemon counts. Returns when the change has been made.
    private let change: @Sendable (Configuration) async -> Void
    private let logger: Logger

    /// - Throws: ``StartFailure``, or an error of the part that could not be made.
    init(_ configuration: Configuration, logger: Logger) throws {
        if configuration.method != .poll { try Privileges.checkBPF() }
        let recorder = try configuration.recordEvents.map { path in
            do {
                return try EventRecorder(path: path)
            } catch {
                throw StartFailure(code: 1, message: "can't write \(path): \(error)")
            }
        }
        let names = UserNames()
        let history = try configuration.stateDirectory.map { path in
            try History(
                directory: path,
                host: HostFacts.description().name,
                retention: configuration.historyRetention,
                userName: { names[$0] },
                userNames: { names.known($0) },
                report: { news in
                    switch news {
                    case .setAside, .unwritten, .lost: logger.warning("\(news)")
                    case .writtenAgain: logger.notice("\(news)")
                    }
                }
            )
        }
        // A wrong file ends the start before the kernel counts.
        var receivers: [PushReceiver] = []
        for destination in configuration.push { receivers.append(try PushReceiver(destination)) }
        let network = try configuration.listen.map { address in
            try NetworkListener(
                address: address,
                names: configuration.allowedHosts,
                files: .init(
                    token: configuration.listenTokenFile,
                    administratorToken: configuration.listenAdminTokenFile,
                    certificate: configuration.listenCertificateFile,
                    key: configuration.listenKeyFile
                )
            )
        }
        let hostName = HostFacts.description().name
        let directory = try RuntimeDirectory(taking: configuration.runtimeDirectory)
        let description = HostFacts.daemon(version: TrafficVersion.current)
        let pins = try configuration.pinDirectory.take(logger: logger)
        let file = CheckpointFile(in: directory.path, pinDirectory: pins?.path)
        let restart = try Restart.make(
            configuration,
            pins: pins,
            file: file,
            mark: history?.mark ?? .none,
            startedAt: description.startedAt,
            logger: logger
        )
        let selection = restart.selection
        let status = selection.source.status
        if status.method == .poll && configuration.method == nil {
            logger.warning(
                "NOT EXACT: every exact method is refused, so trafficd polls. It sees only TCP, and misses the last bytes of connections. Reason: \(status.reason ?? "unknown"). \(MethodSelection.remedyForPolling)."
            )
        }
        logger.info(
            "counting",
            metadata: ["method": "\(status.method.rawValue)", "reason": "\(status.reason ?? "the best one")"]
        )
        let cost = CostMeter(try selection.source.programMeter())
        let demand = try SweepDemand()
        let limits =
            CaptureLimits.table(status.method) + configuration.retention.table + ReportLimits.table
            + (history == nil ? [] : History.limits) + AlertBook.limits + AlertBacklog.limits + SeriesLimits.table
        let box = ReadingBox(limits: limits) { demand.ask() }
        let push = PushService(
            receivers,
            every: .seconds(configuration.pushInterval.seconds),
            source: box,
            hostName: hostName,
            spoolPath: configuration.stateDirectory.map { $0 + "/push.sqlite" },
            logger: logger
        )
        let resolver = try ProcessResolver(users: names)
        let inbox = try ReportInbox(bindingAt: directory.reportBindingPath)
        try directory.publishReportSocket()
        let stopper = try Stopper()
        let changes = NewConfiguration(demand: demand)
        let notification = SystemdNotification()
        let alerts = AlertWatch(
            host: HostFacts.description().name,
            history: history,
            names: names,
            logger: logger
        )
        let (start, ready) = AsyncStream.makeStream(of: Never.self)
        let accountant = Accountant(
            source: selection.source,
            resolver: resolver,
            inbox: inbox,
            addresses: try HostAddresses(),
            ledger: restart.ledger,
            countingSince: restart.countingSince,
            inHistory: restart.inHistory,
            checkpoints: CheckpointKeeper(file, countingSince: restart.countingSince, logger: logger),
            daemon: description,
            recorder: recorder,
            history: history,
            alerts: alerts,
            doctor: Doctor(selection: selection),
            box: box,
            notification: notification,
            logger: logger
        )
        // From here on, only its own thread uses the accountant.
        let handover = Mutex<Accountant?>(accountant)
        var services: [any Service] = [
            BlockingService(name: "processes", body: { try resolver.run() }, stop: { resolver.stop() }),
            BlockingService(name: "reports", body: { inbox.run() }, stop: { inbox.stop() }),
        ]
        if !configuration.push.isEmpty { services.append(push) }
        services.append(BlockingService(name: "alerts", body: alerts.run, stop: alerts.stop))
        // The last minute comes when the accountant ends.
        let historyEnd = LaterEnd { history?.stop() }
        if let history {
            services.append(BlockingService(name: "history", body: history.run, stop: historyEnd.ask))
        }
        services += [
            BlockingService(
                name: "accountant",
                body: {
                    defer {
                        changes.end()
                        box.finish()
                    }
                    try handover.withLock { $0.take() }?
                        .run(configuration, changes: changes, stopper: stopper, demand: demand)
                },
                stop: { stopper.stop() },
                onEnd: historyEnd.otherEnded
            ),
            ControlServer(
                source: box,
                cost: cost,
                history: history,
                alerts: alerts,
                runtimeDirectory: directory,
                network: network,
                receivers: { [board = push.board] in board.all },
                userOfPeer: { SocketDiagnostics.user(ofPeer: $0, connectedTo: $1) },
                logger: logger,
                onReady: { _ in
                    // Not earlier: setting the socket's group needs these rights, and the group is set now.
                    do throws(CaptureError) {
                        try Privileges.giveUpThoseOfTheStart(
                            keepsSysAdmin: configuration.keepSysAdmin || status.method == .poll
                        )
                    } catch {
                        logger.warning("goes on with the rights of its start", metadata: ["error": "\(error)"])
                    }
                    notification.ready()
                    ready.finish()
                }
            ),
        ]
        (self.services, self.pins, self.notification, self.logger) = (services, pins, notification, logger)
        (self.configuration, self.start) = (configuration, start)
        self.change = { configuration in
            history?.keep(configuration.historyRetention)
            await changes.give(configuration)
        }
    }

    /// Counts until SIGTERM or SIGINT, or until a part fails.
    ///
    /// - Parameters:
    ///   - source: Read again at each of these signals.
    ///   - logLevel: The level of all loggers.
    func run(rereading source: ConfigurationSource, at hangups: UnixSignalsSequence, logLevel: LogLevel) async throws {
        defer { withExtendedLifetime(self.pins) {} }
        let reload = Reload(
            signals: hangups,
            start: self.start,
            source: source,
            configuration: self.configuration,
            notification: self.notification,
            logger: self.logger,
            logLevel: logLevel,
            apply: self.change
        )
        try await ServiceGroup(
            services: self.services + [reload],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: self.logger
        ).run()
        self.notification.stopping()
    }
}
