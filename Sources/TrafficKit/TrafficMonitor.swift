import Glibc
import Synchronization
public import TrafficReport

/// Sees what is reported, beside the daemon. Called where the exchange happens: it must not wait.
public protocol TrafficObserver: Sendable {
    func observe(_ record: Report.Record)
}

/// Tells the daemon which HTTP exchanges the bytes of this process's sockets were moved for.
///
/// It observes and changes nothing: without a daemon, with one that hangs, stopped or running, the app works the same.
/// A connection that begins when there has been no daemon for ten seconds, and no observer, costs next to nothing and is
/// not counted until there is one (``hasListener``): of HTTP/1.x from its next request but one on, of HTTP/2 never. Integrations for HTTP libraries name an exchange by
/// ``name(method:host:target:template:role:)`` and give its records to ``report(_:)``; bodies, values of fields and queries
/// never come here.
public final class TrafficMonitor: Sendable {
    public struct Configuration: Sendable {
        /// The daemon's socket for reports.
        public var socketPath: String
        public var naming: RouteNaming
        public var filter: TrafficFilter
        /// Hosts that servers of this process are known by, without ports. Requests for all others have the host `_other`. `nil`: the first
        /// 32 that a request comes for, of a path that the server's router knows; without a router, of any path.
        public var hosts: [String]?
        /// In this order, before the daemon.
        public var observers: [any TrafficObserver]
        /// Of the sender, in nanoseconds: tests have one that they set.
        package var clock: @Sendable () -> UInt64 = TrafficClock.nanoseconds

        /// - Parameter socketPath: `nil`: `$TRAFFICD_REPORT_SOCKET`, or where the daemon has it by default.
        public init(
            socketPath: String? = nil,
            naming: RouteNaming = RouteNaming(),
            filter: TrafficFilter = TrafficFilter(),
            hosts: [String]? = nil,
            observers: [any TrafficObserver] = []
        ) {
            let environment = getenv("TRAFFICD_REPORT_SOCKET").map { String(cString: $0) }
            self.socketPath = socketPath ?? environment ?? "/run/trafficd/report.sock"
            self.naming = naming
            self.filter = filter
            self.hosts = hosts
            self.observers = observers
        }

        /// Of observers that are no objects nobody can tell.
        func isEqual(to other: Configuration) -> Bool {
            (self.socketPath, self.naming, self.filter, self.hosts)
                == (other.socketPath, other.naming, other.filter, other.hosts)
                && self.observers.count == other.observers.count
                && zip(self.observers, other.observers).allSatisfy { one, other in
                    type(of: one) is AnyClass && one as AnyObject === other as AnyObject
                }
        }
    }

    /// From a start to a stop.
    final class Running: Sendable {
        let configuration: Configuration
        private let served: ServedNames
        let sender: ReportSender

        init(_ configuration: Configuration) {
            self.configuration = configuration
            self.served = ServedNames(own: configuration.hosts)
            self.sender = ReportSender(path: configuration.socketPath, clock: configuration.clock)
        }

        var hasListener: Bool { !self.configuration.observers.isEmpty || self.sender.hasDaemon }

        /// - Returns: `nil`: the app keeps the request out. `isPath`: whoever asks may choose it.
        func route(of request: HTTP1Head.Request, _ answer: RouteAnswer) -> (text: String, isPath: Bool)? {
            guard self.admits(request) else { return nil }
            return self.configuration.naming.route(of: request.target, answer)
        }

        /// - Parameter route: Of this request.
        /// - Returns: `isLasting`: it is the request's own, and will be so the next time.
        func name(
            of request: HTTP1Head.Request,
            _ route: (text: String, isPath: Bool),
            _ role: Report.Role
        ) -> (name: Report.Name, isLasting: Bool) {
            let host = HostNaming.host(of: request.host)
            var named = (host: host, route: route.text)
            if role == .server { named = self.served.name(host: host, route: route.text, isPath: route.isPath) }
            let name = Report.Name(method: request.method, host: named.host, route: named.route)
            return (name, named == (host, route.text))
        }

        func admits(_ request: HTTP1Head.Request) -> Bool {
            let filter = self.configuration.filter
            if filter.isEmpty { return true }
            return filter.admits(host: HostNaming.host(of: request.host), path: RouteNaming.path(of: request.target))
        }

        func report(_ records: [Report.Record]) {
            if !self.configuration.observers.isEmpty {
                for record in records { for observer in self.configuration.observers { observer.observe(record) } }
            }
            self.sender.send(records)
        }
    }

    /// For a whole process, which is one app as a rule.
    public static let shared = TrafficMonitor()

    private let running = Mutex<Running?>(nil)
    /// Goes up whenever that changes: whoever has looked need not look again.
    private let changeCount = Atomic<UInt>(0)
    /// Of all monitors: the daemon knows an exchange by its process and its number.
    private static let lastExchange = Atomic<UInt64>(0)

    public init() {}

    /// It is running otherwise than it was to be started.
    public struct AlreadyRunning: Error, Hashable, CustomStringConvertible {
        public var description: String { "the traffic monitor is running with another configuration: stop it first" }
    }

    /// Begins to report, by the default configuration. While it is running this changes nothing: whoever started it has said how.
    ///
    /// - Returns: Whether it was not running.
    @discardableResult
    public func start() -> Bool {
        (try? self.start(Configuration())) ?? false
    }

    /// Begins to report. While it is running with an equal configuration this changes nothing.
    ///
    /// - Returns: Whether it was not running.
    /// - Throws: ``AlreadyRunning`` where it is running with another configuration, which stays: what this one would keep out is reported.
    ///   Observers are equal if they are the same objects.
    @discardableResult
    public func start(_ configuration: Configuration) throws(AlreadyRunning) -> Bool {
        try self.running.withLock { (running) throws(AlreadyRunning) in
            if let running {
                guard running.configuration.isEqual(to: configuration) else { throw AlreadyRunning() }
                return false
            }
            running = Running(configuration)
            self.changeCount.add(1, ordering: .releasing)
            return true
        }
    }

    /// Sends what waits and reports no more. Exchanges at work go on, unreported. Stopping twice is stopping once.
    public func stop() {
        let stopped = self.running.withLock { running in
            self.changeCount.add(1, ordering: .releasing)
            return running.take()
        }
        stopped?.sender.flush()
    }

    public var isRunning: Bool { self.running.withLock { $0 != nil } }

    /// Whether it runs and somebody gets what it is told: observers, or a daemon, which counts as there until there has
    /// been none for ten seconds.
    ///
    /// To be asked when a connection begins, or an exchange without one: where nobody listens it need not be counted.
    public var hasListener: Bool { self.running.withLock { $0 }?.hasListener ?? false }

    /// Whether a connection that begins now is to be counted. While the monitor is stopped it is: it may be started
    /// before the connection ends.
    package var countsConnections: Bool { self.running.withLock { $0 }?.hasListener ?? true }

    /// Records that a daemon had no room for since the start.
    public var droppedRecords: UInt32 { self.running.withLock { $0?.sender.droppedRecords ?? 0 } }

    /// A number for an exchange of this process.
    public func makeExchange() -> UInt64 {
        Self.lastExchange.add(1, ordering: .relaxed).newValue
    }

    /// How an exchange shall be named, decided once: when its request is known, or its route.
    ///
    /// - Parameters:
    ///   - method: The request's.
    ///   - host: With a port or without.
    ///   - target: The request's target.
    ///   - template: The app's own route.
    ///   - role: A server's host and path come from whoever asks. So that strangers can't fill the daemon's rows, its servers' names are
    ///     bounded: 32 hosts, or ``Configuration/hosts``, and 1,000 hosts with a path that has no template. The rest is `_other`.
    /// - Returns: `nil` where the monitor does not run or the app keeps the exchange out: its bytes are `excluded`.
    public func name(
        method: String,
        host: String,
        target: String,
        template: String? = nil,
        role: Report.Role = .client
    ) -> Report.Name? {
        guard let running = self.running.withLock({ $0 }) else { return nil }
        let request = HTTP1Head.Request(method: method, target: target, host: host)
        guard let route = running.route(of: request, template.map { .template($0) } ?? .path) else { return nil }
        return running.name(of: request, route, role).name
    }

    public func report(_ record: Report.Record) {
        self.running.withLock { $0 }?.report([record])
    }

    /// What runs, and how often that has changed.
    var current: (running: Running?, changes: UInt) {
        self.running.withLock { ($0, self.changeCount.load(ordering: .relaxed)) }
    }

    var changes: UInt { self.changeCount.load(ordering: .acquiring) }
}
