package import CommandOptions
package import Logging
package import TrafficAlerts
package import TrafficHistory
package import TrafficModel

/// What a daemon is told. A value: whoever has it knows all of it, wherever it came from. Its defaults are the only ones.
package struct Configuration: Sendable, Hashable {
    /// Where `control.sock` and `report.sock` are.
    package var runtimeDirectory = "/run/trafficd"
    /// Where the API listens over TCP. `nil`: nowhere.
    package var listen: SocketAddress?
    /// The names by which clients over TCP may call this host, beside its addresses and `localhost`.
    package var allowedHosts: Set<String> = []
    /// `nil`: the best method that the kernel offers.
    package var method: CaptureMethod?
    /// `nil`: as the method counts by itself.
    package var wantedWire: WireCounting?
    /// Between two snapshots.
    package var interval = TimeSpan(seconds: 1)
    /// How long an ended process stays listed.
    package var keepExited = TimeSpan(seconds: 300)
    /// Where history is kept. `nil`: nowhere.
    package var stateDirectory: String?
    package var historyRetention = HistoryRetention.default
    package var pinDirectory = PinPlace.off
    /// The file that gets every event of the capture. `nil`: none.
    package var recordEvents: String?
    package var classes = AddressClasses()
    package var alerts: [AlertRule] = []
    package var logLevel = Logger.Level.info

    package init() {}

    package static let intervals = TimeSpan(seconds: 0.1)...TimeSpan(seconds: 60)
    /// At most ten years.
    package static let keepExitedTimes = TimeSpan(seconds: 0)...TimeSpan(seconds: 315_360_000)

    /// Counts no packets with the method `lifecycle`, whatever this is.
    package var wire: WireCounting { self.wantedWire ?? .exact }

    /// Rules of alerts that need history, by their names, although no history is kept. A file alone does not tell, because
    /// the state directory is often an option.
    package var rulesWithoutHistory: [String] {
        guard self.stateDirectory == nil else { return [] }
        return self.alerts.filter { $0.kind.reported.needsHistory }.map(\.name)
    }

    /// Why these settings do not go together; `nil` if they do.
    ///
    /// - Parameter prefix: Before the names of settings: `--` for options.
    package func conflict(prefix: String = "") -> String? {
        guard self.method == .lifecycle, let wire = self.wantedWire, wire != .estimated else { return nil }
        return "\(prefix)method lifecycle counts no packets: leave out \(prefix)wire \(wire.rawValue)"
    }
}
