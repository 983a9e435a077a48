public import ArgumentParser
import CommandOptions
public import Logging
import ServiceLifecycle
import Synchronization
import TrafficAPI
import TrafficCapture
import TrafficFeed
import TrafficInbox
import TrafficLedger
import TrafficModel
import UnixSignals

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Counts in the foreground until SIGTERM or SIGINT.",
        discussion: """
            trafficd needs root, or the capabilities that its error message names. It logs to standard error. It is \
            ready when control.sock in the runtime directory accepts connections; then it tells systemd, if systemd \
            asked. Several instances can run side by side, each with its own runtime directory.

            When trafficd ends, in whatever way, it leaves nothing in the kernel.

            EXIT CODES
              0   stopped by a signal
              1   could not start, or the kernel's side failed
              64  wrong usage
              77  the rights to count are missing

            EXAMPLES
              sudo trafficd run
              sudo trafficd run --method poll --log-level debug
              sudo trafficd run --listen 127.0.0.1:10419
              sudo trafficd run --class paid=0.0.0.0/0,::/0 --class own=10.0.0.0/8,2001:db8::/32
            """
    )

    @Option(help: ArgumentHelp("Directory for control.sock; made if it is missing.", valueName: "dir"))
    var runtimeDirectory = "/run/trafficd"

    @Option(
        help: ArgumentHelp(
            "Serve the API over TCP too, read-only, on this address and port. Readers there see no command lines.",
            valueName: "address:port|off"
        )
    )
    var listen = ListenOption.off

    @Option(
        help: ArgumentHelp(
            "A name by which clients of --listen may call this host, beside its addresses and localhost. May be repeated.",
            valueName: "name"
        )
    )
    var allowHost: [String] = []

    @Option(
        help:
            "How to count. auto takes the best exact method that this kernel offers, or poll. lifecycle counts only TCP, and costs nothing per call or packet."
    )
    var method = MethodOption.auto

    @Option(
        help: ArgumentHelp(
            "exact: count the packets of sockets. audited: also count all packets at the interfaces, so that packets of no socket are known and audits go down to the interfaces. estimated: calculate the wire bytes of TCP from TCP's counters, and count no others. Each step costs time per packet. (default: exact; with --method lifecycle: estimated)",
            valueName: "estimated|exact|audited"
        )
    )
    var wire: WireCounting?

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Time between two snapshots, 100ms to 1m.", valueName: "time")
    )
    var interval = TimeSpan(seconds: 1)

    @Option(
        help: ArgumentHelp(
            "How long an ended process stays listed before its bytes move to the row of its executable; at most \(longestKept).",
            valueName: "time"
        )
    )
    var keepExited = TimeSpan(seconds: 300)

    /// Ten years.
    private static let longestKept = TimeSpan(seconds: 315_360_000)

    @Option(
        help: ArgumentHelp(
            "Write every event of the capture to this file, as NDJSON, for a bug report.",
            valueName: "file"
        )
    )
    var recordEvents: String?

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp(
            "Sum up the bytes to and from these remote addresses under a name. May be repeated. The longest prefix decides.",
            valueName: "name=cidr[,cidr...]"
        )
    )
    var addressClasses: [String] = []

    @Option(help: "trace, debug, info, notice, warning, error or critical.")
    var logLevel = Logger.Level.info

    func validate() throws {
        if self.method == .lifecycle, let wire, wire != .estimated {
            throw ValidationError("--method lifecycle counts no packets: leave out --wire \(wire.rawValue).")
        }
        try self.interval.check("--interval", within: TimeSpan(seconds: 0.1)...TimeSpan(seconds: 60))
        try self.keepExited.check("--keep-exited", within: TimeSpan(seconds: 0)...Self.longestKept)
        do {
            _ = try AddressClasses(self.addressClasses)
        } catch {
            throw ValidationError("--class: \(error).")
        }
    }

    func run() async throws {
        LoggingSystem.bootstrap(StreamLogHandler.standardError)
        var logger = Logger(label: "trafficd")
        logger.logLevel = self.logLevel
        do {
            try await self.count(logger: logger)
        } catch let error as CaptureError {
            if case .permission(let needs) = error { throw StartFailure(code: 77, message: needs) }
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as RuntimeDirectoryError {
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as ControlServerError {
            throw StartFailure(code: 1, message: "\(error)")
        }
    }

    private func count(logger: Logger) async throws {
        if self.method.method != .poll { try Privileges.checkBPF() }
        let recorder = try self.recordEvents.map { path in
            do {
                return try EventRecorder(path: path)
            } catch {
                throw StartFailure(code: 1, message: "can't write \(path): \(error)")
            }
        }
        let directory = try RuntimeDirectory(taking: self.runtimeDirectory)
        let selection = try MethodSelection(wanted: self.method.method, wire: self.wire ?? .exact)
        let status = selection.source.status
        logger.info(
            "counting",
            metadata: ["method": "\(status.method.rawValue)", "reason": "\(status.reason ?? "the best one")"]
        )

        let doctor = Doctor(selection: selection)
        let cost = CostMeter(try selection.source.programMeter())
        let demand = try SweepDemand()
        let retention = Ledger.Retention(exitedProcesses: self.keepExited.duration)
        let limits = CaptureLimits.table(status.method) + retention.table + ReportLimits.table
        let box = SnapshotBox(limits: limits) { demand.ask() }
        let resolver = try ProcessResolver()
        let inbox = try ReportInbox(bindingAt: directory.reportBindingPath)
        try directory.publishReportSocket()
        let stopper = try Stopper()
        let notification = SystemdNotification()
        let accountant = Accountant(
            source: selection.source,
            resolver: resolver,
            inbox: inbox,
            ledger: Ledger(
                retention: retention,
                classes: try AddressClasses(self.addressClasses)
            ),
            daemon: HostFacts.daemon(version: TrafficVersion.current),
            recorder: recorder,
            doctor: doctor,
            box: box,
            notification: notification,
            logger: logger
        )
        // From here on, only its own thread uses the accountant.
        let handover = Mutex<Accountant?>(accountant)
        let interval = self.interval.duration
        let services: [any Service] = [
            BlockingService(name: "processes", body: { try resolver.run() }, stop: { resolver.stop() }),
            BlockingService(name: "reports", body: { inbox.run() }, stop: { inbox.stop() }),
            BlockingService(
                name: "accountant",
                body: {
                    defer { box.finish() }
                    try handover.withLock { $0.take() }?.run(interval: interval, stopper: stopper, demand: demand)
                },
                stop: { stopper.stop() }
            ),
            ControlServer(
                source: box,
                cost: cost,
                runtimeDirectory: directory,
                listen: self.listen.address,
                names: Set(self.allowHost),
                logger: logger,
                onReady: { _ in
                    // Not earlier: setting the socket's group needs these rights, and the group is set now.
                    do throws(CaptureError) {
                        try Privileges.giveUpThoseOfTheStart()
                    } catch {
                        logger.warning("goes on with the rights of its start", metadata: ["error": "\(error)"])
                    }
                    notification.ready()
                }
            ),
        ]
        try await ServiceGroup(
            services: services,
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        ).run()
        notification.stopping()
    }
}

/// A failed start: one line and an exit code (sysexits.h).
struct StartFailure: Error, CustomStringConvertible {
    var code: Int32
    var message: String

    var description: String { self.message }
}

enum MethodOption: String, ExpressibleByArgument, CaseIterable {
    case auto, fexit, tracepoint, kprobe, poll, lifecycle

    /// `nil` for the best capture method.
    var method: CaptureMethod? { CaptureMethod(rawValue: self.rawValue) }
}

struct ListenOption: ExpressibleByArgument {
    static let off = ListenOption(address: nil)

    var address: SocketAddress?

    init(address: SocketAddress?) {
        self.address = address
    }

    /// `off`, `127.0.0.1:10419` or `[::1]:10419`.
    init?(argument: String) {
        if argument == "off" {
            self = .off
            return
        }
        guard let colon = argument.lastIndex(of: ":"), let port = UInt16(argument[argument.index(after: colon)...])
        else {
            return nil
        }
        var host = argument[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        guard let address = InternetAddress(String(host)) else { return nil }
        self.address = SocketAddress(address: address, port: port)
    }

    var defaultValueDescription: String { self.address?.description ?? "off" }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}

extension WireCounting: ExpressibleByArgument {}
