public import ArgumentParser
import CommandOptions
public import Logging
import TrafficAPI
import TrafficCapture
import TrafficHistory
import TrafficModel

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Counts in the foreground until SIGTERM or SIGINT.",
        discussion: """
            trafficd needs root, or the capabilities that its error message names. It logs to standard error. It is \
            ready when control.sock in the runtime directory accepts connections; then it tells systemd, if systemd \
            asked. Several instances can run side by side, each with its own runtime, state and pin directory.

            Without --pin-directory, trafficd leaves nothing in the kernel, however it ends.

            EXIT CODES
              0   stopped by a signal
              1   could not start, or the kernel's side failed
              64  wrong usage
              77  the rights to count are missing

            EXAMPLES
              sudo trafficd run
              sudo trafficd run --method poll --log-level debug
              sudo trafficd run --listen 127.0.0.1:10419
              sudo trafficd run --state-directory /srv/traffic --keep-history month=unlimited
              sudo trafficd run --pin-directory /sys/fs/bpf/trafficd
              sudo trafficd run --class paid=0.0.0.0/0,::/0 --class own=10.0.0.0/8,2001:db8::/32
            """
    )

    @Option(
        help: ArgumentHelp("Directory for control.sock and the checkpoint; made if it is missing.", valueName: "dir")
    )
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
            "How long an ended process stays listed before its bytes move to the row of its group; at most \(longestKept).",
            valueName: "time"
        )
    )
    var keepExited = TimeSpan(seconds: 300)

    /// Ten years.
    private static let longestKept = TimeSpan(seconds: 315_360_000)

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
            "How long history keeps its minutes, hours, days or months. May be repeated. At least 1m, 1h, 25h and 31d. (default: minute=2d, hour=14d, day=62d, month=760d)",
            valueName: "level=time|unlimited"
        )
    )
    var keepHistory: [HistoryKeeping] = []

    @Option(
        help: ArgumentHelp(
            "Leave the counting programs in the kernel, in this directory of the BPF file system, when trafficd ends, in whatever way. They go on counting, and the next trafficd with the same --runtime-directory goes on where this one ended. trafficd unload removes them. auto: \(PinDirectory.usualPath) if trafficd can use it.",
            valueName: "dir|auto|off"
        ),
        completion: .directory
    )
    var pinDirectory = PinPlace.off

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
        if !self.keepHistory.isEmpty && self.stateDirectory == nil {
            throw ValidationError("--keep-history needs --state-directory.")
        }
        _ = try self.configuration()
    }

    func run() async throws {
        LoggingSystem.bootstrap(StreamLogHandler.standardError)
        var logger = Logger(label: "trafficd")
        logger.logLevel = self.logLevel
        do {
            try await Daemon(self.configuration(), logger: logger).run()
        } catch let error as CaptureError {
            if case .permission(let needs) = error { throw StartFailure(code: 77, message: needs) }
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as RuntimeDirectoryError {
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as PinError {
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as HistoryError {
            throw StartFailure(code: 1, message: "\(error)")
        } catch let error as ControlServerError {
            throw StartFailure(code: 1, message: "\(error)")
        }
    }

    /// - Throws: `ValidationError` for an option that makes no sense.
    private func configuration() throws -> Configuration {
        do {
            return Configuration(
                runtimeDirectory: self.runtimeDirectory,
                listen: self.listen.address,
                allowedHosts: Set(self.allowHost),
                method: self.method.method,
                wire: self.wire ?? .exact,
                interval: self.interval.duration,
                keepExited: self.keepExited.duration,
                stateDirectory: self.stateDirectory,
                historyRetention: HistoryRetention(self.keepHistory),
                pinDirectory: self.pinDirectory,
                recordEvents: self.recordEvents,
                classes: try AddressClasses(self.addressClasses)
            )
        } catch {
            throw ValidationError("--class: \(error).")
        }
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
