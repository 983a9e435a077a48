import ArgumentParser
import CommandOptions
import Logging
import TrafficAPI
import TrafficCapture
import TrafficConfiguration
import TrafficDocuments
import TrafficHistory
import TrafficModel
import TrustedFiles
import UnixSignals

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Counts in the foreground until SIGTERM or SIGINT.",
        discussion: """
            trafficd needs root, or the capabilities that its error message names. It logs to standard error. It is \
            ready when control.sock in the runtime directory accepts connections; then it tells systemd, if systemd \
            asked. Several instances can run side by side, each with its own runtime, state and pin directory.

            Without --pin-directory, trafficd leaves nothing in the kernel, however it ends.

            The configuration file has the same settings in YAML. An option wins over the file. SIGHUP makes trafficd \
            read the file again; the log says which changes need a restart.

            EXIT CODES
              0   stopped by a signal
              1   could not start, or the kernel's side failed
              64  wrong usage
              77  the rights to count are missing
              78  the configuration file is wrong

            EXAMPLES
              sudo trafficd run
              sudo trafficd run --method poll --log-level debug
              sudo trafficd run --listen 127.0.0.1:10419
              sudo trafficd run --state-directory /srv/traffic --keep-history month=unlimited
              sudo trafficd run --pin-directory /sys/fs/bpf/trafficd
              sudo trafficd run --class paid=0.0.0.0/0,::/0 --class own=10.0.0.0/8,2001:db8::/32
              sudo trafficd run --config /srv/trafficd.yaml
            """
    )

    @Option(
        help: ArgumentHelp(
            "The configuration file. off: none. (default: \(ConfigurationFile.defaultPath), if it is there)",
            valueName: "file|off"
        ),
        completion: .file(extensions: ["yaml"])
    )
    var config: String?

    @Flag(
        help:
            "Only say whether the configuration file is right, together with the other options given here, and end."
    )
    var checkConfig = false

    @Option(
        help: ArgumentHelp(
            "Directory for control.sock and the checkpoint; made if it is missing. \(Self.standard("runtime_directory"))",
            valueName: "dir"
        ),
        completion: .directory
    )
    var runtimeDirectory: String?

    @Option(
        help: ArgumentHelp(
            "Serve the API over TCP too, read-only, on this address and port. Readers there see no command lines. \(Self.standard("listen"))",
            valueName: "address:port|off"
        )
    )
    var listen: ListenOption?

    @Option(
        help: ArgumentHelp(
            "Clients of --listen must send the token in the first line of this file: Authorization: Bearer TOKEN.",
            valueName: "file"
        ),
        completion: .file()
    )
    var listenTokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Clients of --listen that send the token in the first line of this file see as much as root. Needs TLS.",
            valueName: "file"
        ),
        completion: .file()
    )
    var listenAdminTokenFile: String?

    @Option(
        help: ArgumentHelp("TLS for --listen: the certificate and those above it, in PEM.", valueName: "file"),
        completion: .file()
    )
    var listenCertificateFile: String?

    @Option(
        help: ArgumentHelp("The private key of --listen-certificate-file, in PEM.", valueName: "file"),
        completion: .file()
    )
    var listenKeyFile: String?

    @Flag(
        help:
            "Let other hosts reach --listen without a token or without TLS. Whoever is on the way can read and change what they get."
    )
    var listenInsecure = false

    @Option(
        help: ArgumentHelp(
            "A name by which clients of --listen may call this host, beside its addresses and localhost. May be repeated.",
            valueName: "name"
        )
    )
    var allowHost: [String] = []

    @Option(
        help: ArgumentHelp(
            "How to count. auto takes the best exact method that this kernel offers, or poll. lifecycle counts only TCP, and costs nothing per call or packet. \(Self.standard("method"))"
        )
    )
    var method: MethodOption?

    @Option(
        help: ArgumentHelp(
            "exact: count the packets of sockets. audited: also count all packets at the interfaces, so that packets of no socket are known and audits go down to the interfaces. derived: count no packets, and calculate the wire bytes of TCP and UDP from TCP's counters and the calls; wire_quality is estimated where packets were lost or unusual. exact and audited take time for each packet. (default: exact; with --method lifecycle: derived)",
            valueName: "derived|exact|audited"
        )
    )
    var wire: WireCounting?

    @Flag(
        help:
            "Keep CAP_SYS_ADMIN after the start, which trafficctl doctor --cost needs."
    )
    var keepSysAdmin = false

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "Time between two snapshots, \(Configuration.intervals.lowerBound) to \(Configuration.intervals.upperBound). \(Self.standard("interval"))",
            valueName: "time"
        )
    )
    var interval: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "How long an ended process stays listed before its bytes move to the row of its group; at most \(Configuration.keepExitedTimes.upperBound). \(Self.standard("keep_exited"))",
            valueName: "time"
        )
    )
    var keepExited: TimeSpan?

    @Option(help: .hidden)
    var keepClosed: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "Keep history in this directory, for trafficctl history; made if it is missing. Without it, no history is kept.",
            valueName: "dir"
        ),
        completion: .directory
    )
    var stateDirectory: String?

    @Option(
        help: ArgumentHelp(
            "How long history keeps its minutes, 5 minutes, hours, days or months. May be repeated. At least 1m, 5m, 1h, 25h and 31d. (default: \(Self.standardHistory))",
            valueName: "level=time|unlimited"
        )
    )
    var keepHistory: [HistoryKeeping] = []

    @Option(
        help: ArgumentHelp(
            "Leave the counting programs in the kernel, in this directory of the BPF file system, when trafficd ends, in whatever way. They go on counting, and the next trafficd with the same --runtime-directory goes on where this one ended. trafficd unload removes them. auto: \(PinDirectory.usualPath) if trafficd can use it. \(Self.standard("pin_directory"))",
            valueName: "dir|auto|off"
        ),
        completion: .directory
    )
    var pinDirectory: PinPlace?

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

    @Option(help: "trace, debug, info, notice, warning, error or critical. \(Self.standard("log_level"))")
    var logLevel: Logger.Level?

    /// The default as help shows it.
    private static func standard(_ setting: String) -> String {
        let shown = Configuration.settings.all.first { $0.name == setting }?.show(Configuration())
        return "(default: \(shown ?? "none"))"
    }

    private static let standardHistory = Configuration.settings.all
        .filter { $0.path.first == "keep_history" }
        .map { "\($0.path[1])=\($0.show(Configuration()) ?? "none")" }
        .joined(separator: ", ")

    func validate() throws {
        try self.interval?.check("--interval", within: Configuration.intervals)
        try self.keepExited?.check("--keep-exited", within: Configuration.keepExitedTimes)
        try self.keepClosed?.check("--keep-closed", within: Configuration.keepExitedTimes)
        var configuration = Configuration()
        try self.commandLine()(&configuration)
        // The file may have what is missing here, such as a token.
        if configuration.conflict?.mayBeCompleted == false, let conflict = configuration.conflictOfOptions() {
            throw ValidationError(conflict + ".")
        }
    }

    func run() async throws {
        let source = ConfigurationSource(self.config, commandLine: try self.commandLine())
        let loaded: ConfigurationSource.Loaded
        do throws(ConfigurationFault) {
            loaded = try source.load()
        } catch {
            throw StartFailure(error)
        }
        if !self.keepHistory.isEmpty && loaded.configuration.stateDirectory == nil {
            throw StartFailure(code: 64, message: "--keep-history needs --state-directory, here or in the file")
        }
        // With a file, loading it has found that.
        if let conflict = loaded.configuration.conflictOfOptions() { throw StartFailure(code: 64, message: conflict) }
        if self.checkConfig { return print("the configuration is right") }
        let level = LogLevel(loaded.configuration.logLevel)
        LoggingSystem.bootstrap { LeveledLogHandler(label: $0, level: level) }
        let logger = Logger(label: "trafficd")
        for note in loaded.notes { logger.notice("\(note)") }
        // Before the start, which takes a while: from now on SIGHUP does not end the daemon.
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        do {
            try await Daemon(loaded.configuration, logger: logger)
                .run(rereading: source, at: hangups, logLevel: level)
        } catch let failure as StartFailure {
            throw failure
        } catch let error as TrustedFileError {
            // The next start would fail in the same way.
            throw StartFailure(code: 78, message: "\(error)")
        } catch CaptureError.permission(let needs) {
            throw StartFailure(code: 77, message: needs)
        } catch {
            throw StartFailure(code: 1, message: "\(error)")
        }
    }

    /// What the options change. An option that may be repeated replaces all that was there, except that `--keep-history`
    /// replaces its own level.
    ///
    /// - Throws: `ValidationError` for an option that makes no sense.
    private func commandLine() throws -> @Sendable (inout Configuration) -> Void {
        let classes: AddressClasses
        do throws(AddressClasses.Fault) {
            classes = try AddressClasses(self.addressClasses)
        } catch {
            throw ValidationError("--class: \(error).")
        }
        return { [self] configuration in
            if let runtimeDirectory { configuration.runtimeDirectory = runtimeDirectory }
            if let listen { configuration.listen = listen.address }
            if let listenTokenFile { configuration.listenTokenFile = listenTokenFile }
            if let listenAdminTokenFile { configuration.listenAdminTokenFile = listenAdminTokenFile }
            if let listenCertificateFile { configuration.listenCertificateFile = listenCertificateFile }
            if let listenKeyFile { configuration.listenKeyFile = listenKeyFile }
            if listenInsecure { configuration.listenInsecure = true }
            if !self.allowHost.isEmpty { configuration.allowedHosts = Set(self.allowHost) }
            if let method { configuration.method = method.method }
            if let wire { configuration.wantedWire = wire }
            if keepSysAdmin { configuration.keepSysAdmin = true }
            if let interval { configuration.interval = interval }
            if let keepExited { configuration.keepExited = keepExited }
            if let keepClosed { configuration.keepClosed = keepClosed }
            if let stateDirectory { configuration.stateDirectory = stateDirectory }
            for keeping in self.keepHistory {
                configuration.historyRetention.keep(keeping.level, for: keeping.seconds)
            }
            if let pinDirectory { configuration.pinDirectory = pinDirectory }
            if let recordEvents { configuration.recordEvents = recordEvents }
            if !classes.isEmpty { configuration.classes = classes }
            if let logLevel { configuration.logLevel = logLevel }
        }
    }
}
