import Glibc
import Synchronization
public import TrafficReport

/// Sees what is reported, beside the daemon. Called where the exchange happens: it must not wait.
public protocol TrafficObserver: Sendable {
    func observe(_ record: Report.Record)
}

/// Tells the daemon which HTTP exchanges the bytes of this process's sockets were moved for.
///
/// It observes and changes nothing: without a daemon, with one that hangs, stopped or running, the app works the same. Integrations for
/// HTTP libraries name an exchange by ``name(host:target:template:)`` and give its records to ``report(_:)``; bodies, values of fields and queries never come here.
public final class TrafficMonitor: Sendable {
    public struct Configuration: Sendable {
        /// The daemon's socket for reports.
        public var socketPath: String
        public var naming: RouteNaming
        public var filter: TrafficFilter
        /// In this order, before the daemon.
        public var observers: [any TrafficObserver]

        /// - Parameter socketPath: `nil`: `$TRAFFICD_REPORT_SOCKET`, or where the daemon has it by default.
        public init(
            socketPath: String? = nil,
            naming: RouteNaming = RouteNaming(),
            filter: TrafficFilter = TrafficFilter(),
            observers: [any TrafficObserver] = []
        ) {
            let environment = getenv("TRAFFICD_REPORT_SOCKET").map { String(cString: $0) }
            self.socketPath = socketPath ?? environment ?? "/run/trafficd/report.sock"
            self.naming = naming
            self.filter = filter
            self.observers = observers
        }
    }

    private final class Running: Sendable {
        let configuration: Configuration
        let sender: ReportSender
        let names = NameCache()

        init(_ configuration: Configuration) {
            self.configuration = configuration
            self.sender = ReportSender(path: configuration.socketPath)
        }
    }

    /// For a whole process, which is one app as a rule.
    public static let shared = TrafficMonitor()

    private let running = Mutex<Running?>(nil)
    /// Of all monitors: the daemon knows an exchange by its process and its number.
    private static let lastExchange = Atomic<UInt64>(0)

    public init() {}

    /// Begins to report. While it is running this changes nothing: whoever started it first has said how.
    ///
    /// - Returns: Whether it was not running.
    @discardableResult
    public func start(_ configuration: Configuration = Configuration()) -> Bool {
        self.running.withLock { running in
            guard running == nil else { return false }
            running = Running(configuration)
            return true
        }
    }

    /// Sends what waits and reports no more. Exchanges at work go on, unreported. Stopping twice is stopping once.
    public func stop() {
        let stopped = self.running.withLock { $0.take() }
        stopped?.sender.flush()
    }

    public var isRunning: Bool { self.running.withLock { $0 != nil } }

    /// Records that a daemon had no room for since the start.
    public var droppedRecords: UInt32 { self.running.withLock { $0?.sender.droppedRecords ?? 0 } }

    /// A number for an exchange of this process.
    public func makeExchange() -> UInt64 {
        Self.lastExchange.add(1, ordering: .relaxed).newValue
    }

    /// How an exchange shall be named, decided once, when its request is known.
    ///
    /// - Parameters:
    ///   - host: With a port or without.
    ///   - target: The request's target.
    ///   - template: The app's own route.
    /// - Returns: `nil` where the monitor does not run or the app keeps the exchange out: its bytes are `excluded`.
    public func name(host: String, target: String, template: String? = nil) -> (host: String, route: String)? {
        guard let running = self.running.withLock({ $0 }) else { return nil }
        guard template == nil else { return Self.name(host, target, template, running.configuration) }
        return running.names.name(host: host, target: target) {
            Self.name(host, target, nil, running.configuration)
        }
    }

    private static func name(
        _ authority: String,
        _ target: String,
        _ template: String?,
        _ configuration: Configuration
    ) -> (host: String, route: String)? {
        let host = HostNaming.host(of: authority)
        guard configuration.filter.admits(host: host, path: target) else { return nil }
        return (host, configuration.naming.route(of: target, template: template))
    }

    public func report(_ record: Report.Record) {
        guard let running = self.running.withLock({ $0 }) else { return }
        for observer in running.configuration.observers { observer.observe(record) }
        running.sender.send(record)
    }
}

/// The names of the targets that come again and again: working one out takes longer than all the rest of an exchange.
///
/// It keeps no query and nothing long, and forgets everything when it is full.
private final class NameCache: Sendable {
    private struct Key: Hashable {
        var host: String
        var target: String
    }

    private static let limit = 512
    private static let longestTarget = 128

    private let names = Mutex<[Key: (host: String, route: String)?]>([:])

    func name(
        host: String,
        target: String,
        _ work: () -> (host: String, route: String)?
    ) -> (host: String, route: String)? {
        guard target.utf8.count <= Self.longestTarget, !target.utf8.contains(UInt8(ascii: "?")) else { return work() }
        let key = Key(host: host, target: target)
        if let known = self.names.withLock({ $0[key] }) { return known }
        let name = work()
        self.names.withLock { names in
            if names.count >= Self.limit { names.removeAll(keepingCapacity: true) }
            names[key] = .some(name)
        }
        return name
    }
}

enum HostNaming {
    /// Of `Host` or an authority (RFC 3986 section 3.2): without user and port, in lower case.
    static func host(of authority: String) -> String {
        if authority.utf8.allSatisfy(Self.isPlain) { return authority }
        var host = Substring(authority)
        if let at = host.lastIndex(of: "@") { host = host[host.index(after: at)...] }
        if host.hasPrefix("[") {
            if let end = host.firstIndex(of: "]") { host = host[...end] }
        } else if let colon = host.firstIndex(of: ":"), host[host.index(after: colon)...].allSatisfy(\.isNumber) {
            host = host[..<colon]
        }
        return host.lowercased()
    }

    /// Nothing to leave out or to change.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
