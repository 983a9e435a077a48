import Glibc
import Synchronization
public import TrafficReport

/// Sees every reported record before the daemon does. The monitor calls it where the exchange happens, so it must not
/// wait.
public protocol TrafficObserver: Sendable {
    func observe(_ record: Report.Record)
}

/// Tells the daemon for which HTTP exchanges the sockets of this process moved their bytes.
///
/// The monitor observes and changes nothing. The app works the same without a daemon and with a daemon that hangs, and
/// while the monitor is stopped or running.
///
/// A connection may begin when there is no observer and has been no daemon for ten seconds. Then it costs next to
/// nothing and is not counted until there is a listener (``hasListener``). After that, HTTP/1.x is counted from the
/// second request on, HTTP/2 never.
///
/// Integrations for HTTP libraries name an exchange with ``name(method:host:target:template:role:)`` and give its
/// records to ``report(_:)``. The monitor receives no bodies. It reports no queries, and no text of a field except the
/// host.
public final class TrafficMonitor: Sendable {
    public struct Configuration: Sendable {
        /// Path of the daemon's socket for reports.
        public var socketPath: String
        public var naming: RouteNaming
        public var filter: TrafficFilter
        /// Hosts of this process's servers, without ports. Requests for all other hosts have the host `_other`. `nil`:
        /// the first 32 hosts that a request comes for. The server's router must know the path of that request; without
        /// a router any path counts.
        public var hosts: [String]?
        /// Called in this order, before the daemon gets the record.
        public var observers: [any TrafficObserver]
        /// The sender's clock, in nanoseconds. Tests set their own. Called in the middle of a connection's work, so it
        /// must not use one.
        package var clock: @Sendable () -> UInt64 = TrafficClock.nanoseconds

        /// - Parameter socketPath: `nil`: `$TRAFFICD_REPORT_SOCKET`, or the daemon's default path.
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

        /// Observers that are not objects never count as equal.
        func isEqual(to other: Configuration) -> Bool {
            (self.socketPath, self.naming, self.filter, self.hosts)
                == (other.socketPath, other.naming, other.filter, other.hosts)
                && self.observers.count == other.observers.count
                && zip(self.observers, other.observers).allSatisfy { one, other in
                    type(of: one) is AnyClass && one as AnyObject === other as AnyObject
                }
        }
    }

    /// The state from a start to a stop.
    final class Running: Sendable {
        let configuration: Configuration
        private let served: ServedNames
        private let shared = Mutex<Set<Report.Name>>([])
        private let admitsAll: Bool
        let hasObservers: Bool
        let sender: ReportSender

        init(_ configuration: Configuration) {
            self.configuration = configuration
            self.admitsAll = configuration.filter.isEmpty
            self.hasObservers = !configuration.observers.isEmpty
            self.served = ServedNames(own: configuration.hosts)
            self.sender = ReportSender(path: configuration.socketPath, clock: configuration.clock)
        }

        var hasListener: Bool { self.hasObservers || self.sender.hasDaemon }

        /// - Returns: `nil`: the app keeps the request out. `isPath`: the sender of the request may choose the text.
        func route(of request: MessageHead.Request, _ answer: RouteAnswer) -> (text: String, isPath: Bool)? {
            guard self.admits(request) else { return nil }
            return self.configuration.naming.route(of: request.target, answer)
        }

        /// - Parameter route: The route of this request.
        /// - Returns: `isLasting`: the name has the request's own host and route, and is the same the next time.
        func name(
            of request: MessageHead.Request,
            _ route: (text: String, isPath: Bool),
            _ role: Report.Role
        ) -> (name: Report.Name, isLasting: Bool) {
            let host = HostNaming.host(of: request.host)
            var named = (host: host, route: route.text)
            if role == .server { named = self.served.name(host: host, route: route.text, isPath: route.isPath) }
            let name = Report.Name(method: request.method, host: named.host, route: named.route)
            return (name, named == (host, route.text))
        }

        /// Names that are kept for all connections, at most.
        private static let mostShared = 256

        /// The same name for all connections that ask for an equal one: a datagram then need not compare texts to know
        /// whether it has the name.
        func share(_ name: Report.Name) -> Report.Name {
            self.shared.withLock { names in
                if names.count >= Self.mostShared, !names.contains(name) { names.removeAll() }
                return names.insert(name).memberAfterInsert
            }
        }

        func admits(_ request: MessageHead.Request) -> Bool {
            if self.admitsAll { return true }
            let (host, path) = (HostNaming.host(of: request.host), RouteNaming.path(of: request.target))
            return self.configuration.filter.admits(host: host, path: path)
        }

        /// - Parameter gatherer: As in ``ReportSender/send(_:by:)``.
        func report(_ batch: borrowing RecordBatch, by gatherer: RecordGatherer? = nil) {
            if self.hasObservers {
                for record in copy batch { for observer in self.configuration.observers { observer.observe(record) } }
            }
            self.sender.send(batch, by: gatherer)
        }
    }

    /// The monitor of the whole process, which usually is one app.
    public static let shared = TrafficMonitor()

    private let running = Mutex<Running?>(nil)
    /// Goes up whenever `running` changes, so that a caller need not look at `running` again.
    private let changeCount = Atomic<UInt>(0)
    /// One number for all monitors: the daemon identifies an exchange by its process and its number.
    private static let lastExchange = Atomic<UInt64>(0)

    public init() {}

    /// The monitor is already running with another configuration.
    public struct AlreadyRunning: Error, Hashable, CustomStringConvertible {
        public var description: String { "the traffic monitor is running with another configuration: stop it first" }
    }

    /// Begins to report with the default configuration. If the monitor is already running, this changes nothing.
    ///
    /// - Returns: Whether the monitor was stopped before.
    @discardableResult
    public func start() -> Bool {
        (try? self.start(Configuration())) ?? false
    }

    /// Begins to report. If the monitor is already running with an equal configuration, this changes nothing.
    ///
    /// - Returns: Whether the monitor was stopped before.
    /// - Throws: ``AlreadyRunning`` if the monitor is running with another configuration. That configuration stays: the
    ///   monitor then reports exchanges that the new one would keep out. Observers are equal if they are the same
    ///   objects.
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

    /// Sends the waiting records and reports no more. Open exchanges go on and are not reported. A second call changes
    /// nothing.
    public func stop() {
        let stopped = self.running.withLock { running in
            self.changeCount.add(1, ordering: .releasing)
            return running.take()
        }
        stopped?.sender.flush()
    }

    public var isRunning: Bool { self.running.withLock { $0 != nil } }

    /// Whether the monitor runs and has a listener: an observer or a daemon. A daemon counts as there until there has
    /// been none for ten seconds.
    ///
    /// To be asked when a connection begins, or an exchange without a connection. Without a listener it need not be
    /// counted.
    public var hasListener: Bool { self.running.withLock { $0 }?.hasListener ?? false }

    /// Whether a connection that begins now is to be counted. While the monitor is stopped this is `true`: the monitor
    /// may be started before the connection ends.
    package var countsConnections: Bool { self.running.withLock { $0 }?.hasListener ?? true }

    /// Records that were dropped since the start because a daemon did not keep up.
    public var droppedRecords: UInt32 { self.running.withLock { $0?.sender.droppedRecords ?? 0 } }

    /// Makes a number for an exchange of this process.
    public func makeExchange() -> UInt64 {
        Self.lastExchange.add(1, ordering: .relaxed).newValue
    }

    /// Makes as many numbers for one connection, so that the threads of a server seldom share the counter.
    static func makeExchanges(_ count: UInt64) -> Range<UInt64> {
        let last = Self.lastExchange.add(count, ordering: .relaxed).newValue
        return last - count + 1..<last + 1
    }

    /// Makes the name of an exchange: its endpoint. Called once, when its request or its route is known.
    ///
    /// - Parameters:
    ///   - method: The request's method.
    ///   - host: With or without a port.
    ///   - target: The request's target.
    ///   - template: The app's own route.
    ///   - role: A client chooses the host and path of a server's request. So that strangers cannot fill the daemon's
    ///     rows, the names of servers are bounded: 32 hosts or ``Configuration/hosts``, and 1,000 pairs of a host and a
    ///     path without a template. All others are `_other`.
    /// - Returns: `nil` if the monitor does not run or the app keeps the exchange out: its bytes are `excluded`.
    public func name(
        method: String,
        host: String,
        target: String,
        template: String? = nil,
        role: Report.Role = .client
    ) -> Report.Name? {
        guard let running = self.running.withLock({ $0 }) else { return nil }
        let request = MessageHead.Request(method: method, target: target, host: host)
        guard let route = running.route(of: request, template.map { .template($0) } ?? .path) else { return nil }
        return running.name(of: request, route, role).name
    }

    public func report(_ record: Report.Record) {
        guard let running = self.running.withLock({ $0 }) else { return }
        var batch = RecordBatch()
        batch.append(record)
        running.report(batch)
    }

    /// The current run, and how often it has changed.
    var current: (running: Running?, changes: UInt) {
        self.running.withLock { ($0, self.changeCount.load(ordering: .relaxed)) }
    }

    var changes: UInt { self.changeCount.load(ordering: .acquiring) }
}
