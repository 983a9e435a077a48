package import CommandOptions
package import Logging
package import TrafficAlerts
package import TrafficDocuments
package import TrafficModel

/// What a daemon is told. A value: whoever has it knows all of it, wherever it came from. Its defaults are the only ones.
package struct Configuration: Sendable, Hashable {
    /// Where `control.sock` and `report.sock` are.
    package var runtimeDirectory = "/run/trafficd"
    /// Where the API listens over TCP. `nil`: nowhere.
    package var listen: SocketAddress?
    /// The file with the token that clients over TCP must send. `nil`: none.
    package var listenTokenFile: String?
    /// The file with the token of clients over TCP that may see as much as root. `nil`: there are no such clients.
    package var listenAdminTokenFile: String?
    /// The files with the certificate and the key for TLS over TCP. `nil`: no TLS.
    package var listenCertificateFile: String?
    package var listenKeyFile: String?
    /// Other hosts may reach the API without a token or without TLS.
    package var listenInsecure = false
    /// The names by which clients over TCP may call this host, beside its addresses and `localhost`.
    package var allowedHosts: Set<String> = []
    /// `nil`: the best method that the kernel offers.
    package var method: CaptureMethod?
    /// `nil`: as the method counts by itself.
    package var wantedWire: WireCounting?
    /// The daemon keeps CAP_SYS_ADMIN after its start.
    package var keepSysAdmin = false
    /// Between two snapshots.
    package var interval = TimeSpan(seconds: 1)
    /// How long an ended process stays listed.
    package var keepExited = TimeSpan(seconds: 300)
    /// How long a closed socket stays listed. No setting: longer only for tests, which may look late.
    package var keepClosed = TimeSpan(seconds: 5)
    /// Where history is kept. `nil`: nowhere.
    package var stateDirectory: String?
    package var historyRetention = HistoryRetention.default
    package var pinDirectory = PinPlace.off
    /// The file that gets every event of the capture. `nil`: none.
    package var recordEvents: String?
    package var classes = AddressClasses()
    package var alerts: [AlertRule] = []
    /// Who gets all metrics.
    package var push: [PushDestination] = []
    /// Between two readings that they get.
    package var pushInterval = TimeSpan(seconds: 60)
    package var logLevel = Logger.Level.info

    package init() {}

    package static let intervals = TimeSpan(seconds: 0.1)...TimeSpan(seconds: 60)
    package static let pushIntervals = TimeSpan(seconds: 1)...TimeSpan(seconds: 3_600)
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

    /// Settings that do not go together.
    package struct Conflict: Sendable, Hashable {
        /// An option may give what is missing.
        package var mayBeCompleted: Bool { self.setting.hasPrefix("listen") }
        /// The setting to change.
        package var setting: String
        /// Names the settings as the keys of a file.
        package var message: String
    }

    /// `nil` if the settings go together.
    package var conflict: Conflict? {
        if self.method == .lifecycle, let wire = self.wantedWire, wire != .derived {
            return Conflict(
                setting: "wire",
                message: "method lifecycle counts no packets: leave out wire \(wire.rawValue)"
            )
        }
        return self.listenConflict
    }

    /// Of the settings that protect ``listen``.
    private var listenConflict: Conflict? {
        guard let listen else { return nil }
        guard (self.listenCertificateFile == nil) == (self.listenKeyFile == nil) else {
            return Conflict(
                setting: self.listenKeyFile == nil ? "listen_certificate_file" : "listen_key_file",
                message: "listen_certificate_file and listen_key_file need each other"
            )
        }
        guard self.listenCertificateFile == nil || BuildTraits.hasTLS else {
            return Conflict(
                setting: "listen_certificate_file",
                message: "listen_certificate_file: \(BuildTraits.noTLS)"
            )
        }
        // Also on a loopback address, and whatever listen_insecure says: this token opens everything, and any user can
        // take the port while no daemon has it. A client that knows the certificate does not give the token to them.
        guard self.listenAdminTokenFile == nil || self.listenCertificateFile != nil else {
            return Conflict(
                setting: "listen_admin_token_file",
                message: "listen_admin_token_file needs listen_certificate_file and listen_key_file"
            )
        }
        guard !listen.address.isLoopback, !self.listenInsecure else { return nil }
        var missing: [String] = []
        if self.listenTokenFile == nil { missing.append("listen_token_file") }
        if self.listenCertificateFile == nil { missing.append("listen_certificate_file with listen_key_file") }
        guard !missing.isEmpty else { return nil }
        return Conflict(
            setting: "listen",
            message: """
                other hosts reach listen \(listen): give \(missing.joined(separator: " and ")), or set listen_insecure \
                to do without
                """
        )
    }

    /// - Returns: The message with the names of options: `--listen-key-file` for `listen_key_file`.
    package func conflictOfOptions() -> String? {
        guard let conflict else { return nil }
        let names = Set(Self.settings.all.map(\.name))
        return conflict.message.split(separator: " ", omittingEmptySubsequences: false).map { word in
            let name = word.prefix { $0 == "_" || $0.isLetter }
            guard names.contains(String(name)) else { return String(word) }
            return "--\(name.replacing("_", with: "-"))\(word.dropFirst(name.count))"
        }.joined(separator: " ")
    }
}
