import TrafficLimits

/// What monitoring systems get: sums that never fall, under a limited number of names.
///
/// A monitoring system adds up how much a series has grown since the last look. A series that fell, or one whose bytes
/// moved to another series, would count bytes twice there. So a series is admitted once and stays for as long as the
/// count goes on, also over restarts. What got no series of its own adds up in the ``Overflow`` of its user.
public struct MetricsReading: Sendable, Hashable {
    /// Every byte from before this time is in a sum, if the daemon knows by now whose it is.
    public var takenAt: Timestamp
    public var countingSince: Timestamp
    /// When all series of processes, endpoints and interfaces were 0. Later than ``countingSince`` after a start with a
    /// checkpoint of another version of the program.
    public var seriesSince: Timestamp
    public var daemon: DaemonDescription
    public var capture: CaptureStatus
    /// `nil` for a reader who may not see the sums of all users.
    public var host: HostSums?
    public var processes: Sums<ProcessSeries, ByteCounts>
    public var endpoints: Sums<EndpointSeries, EndpointSeriesCounts>
    public var interfaces: Sums<String, InterfaceCounts>

    public init(
        takenAt: Timestamp,
        countingSince: Timestamp,
        seriesSince: Timestamp? = nil,
        daemon: DaemonDescription,
        capture: CaptureStatus,
        host: HostSums? = nil,
        processes: Sums<ProcessSeries, ByteCounts> = .init(),
        endpoints: Sums<EndpointSeries, EndpointSeriesCounts> = .init(),
        interfaces: Sums<String, InterfaceCounts> = .init()
    ) {
        self.takenAt = takenAt
        self.countingSince = countingSince
        self.seriesSince = seriesSince ?? countingSince
        self.daemon = daemon
        self.capture = capture
        self.host = host
        self.processes = processes
        self.endpoints = endpoints
        self.interfaces = interfaces
    }

    /// The sums over all processes, as in ``Totals``.
    public struct HostSums: Sendable, Hashable {
        public var bytes: ByteCounts
        public var byScope: [String: ByteCounts]
        public var byClass: [String: ByteCounts]

        public init(bytes: ByteCounts, byScope: [String: ByteCounts] = [:], byClass: [String: ByteCounts] = [:]) {
            (self.bytes, self.byScope, self.byClass) = (bytes, byScope, byClass)
        }
    }

    /// The series of one kind, and what has no series of its own.
    public struct Sums<Name: Sendable & Hashable, Value: Sendable & Hashable>: Sendable, Hashable {
        /// In the order in which they were admitted.
        public var series: [Series]
        public var overflow: [Overflow: Value]

        public struct Series: Sendable, Hashable {
            public var name: Name
            public var value: Value

            public init(name: Name, value: Value) { (self.name, self.value) = (name, value) }
        }

        public init(series: [Series] = [], overflow: [Overflow: Value] = [:]) {
            (self.series, self.overflow) = (series, overflow)
        }
    }

    /// Where everything adds up that has no series of its own.
    public struct Overflow: Sendable, Hashable, Codable {
        /// `nil`: of several users, because there are too many, or of no user.
        public var user: UInt32?
        /// For endpoints.
        public var role: EndpointRole?

        public init(user: UInt32?, role: EndpointRole? = nil) { (self.user, self.role) = (user, role) }
    }
}

/// The name of a series of processes: a ``ProcessGroup`` without the container.
///
/// A container gets a new id each time somebody deploys it, and a series stays for good: so containers would use up any
/// number of series. Names are cut and have no control characters, because their owners choose them.
public struct ProcessSeries: Sendable, Hashable, Codable {
    public var name: String
    /// The last part of a long path.
    public var executable: String
    public var systemdUnit: String
    public var uid: UInt32?

    public init(name: String, executable: String = "", systemdUnit: String = "", uid: UInt32?) {
        (self.name, self.executable, self.systemdUnit, self.uid) = (name, executable, systemdUnit, uid)
    }

    package init(_ group: ProcessGroup) {
        self.init(
            name: group.name.label,
            executable: (group.executable ?? "").label,
            systemdUnit: (group.systemdUnit ?? "").label,
            uid: group.uid
        )
    }
}

/// The name of a series of endpoints.
public struct EndpointSeries: Sendable, Hashable, Codable {
    public var process: ProcessSeries
    public var role: EndpointRole
    /// Empty for a server: anybody who sends a request chooses it there.
    public var host: String
    public var route: String

    public init(process: ProcessSeries, role: EndpointRole, host: String, route: String) {
        (self.process, self.role, self.host, self.route) = (process, role, host.label, route.label)
    }
}

/// What a series of endpoints counts.
public struct EndpointSeriesCounts: Sendable, Hashable {
    public var counts: EndpointCounts
    /// How long the exchanges took that ended.
    public var durations: DurationBuckets
    /// How large the bodies of the messages were, as they were sent: mostly compressed.
    public var requestBodies: BodySizeBuckets
    public var responseBodies: BodySizeBuckets

    public init(
        counts: EndpointCounts = EndpointCounts(),
        durations: DurationBuckets = DurationBuckets(),
        requestBodies: BodySizeBuckets = BodySizeBuckets(),
        responseBodies: BodySizeBuckets = BodySizeBuckets()
    ) {
        (self.counts, self.durations) = (counts, durations)
        (self.requestBodies, self.responseBodies) = (requestBodies, responseBodies)
    }

    package static func += (left: inout Self, right: Self) {
        left.counts += right.counts
        left.durations += right.durations
        left.requestBodies += right.requestBodies
        left.responseBodies += right.responseBodies
    }
}

extension String {
    /// The end of the text, in at most ``SeriesLimits/longestLabel`` bytes, and without control characters.
    fileprivate var label: String {
        let text = self.printable
        guard text.utf8.count > SeriesLimits.longestLabel else { return text }
        var start = text.utf8.index(text.utf8.endIndex, offsetBy: -SeriesLimits.longestLabel)
        while start.samePosition(in: text.unicodeScalars) == nil { start = text.utf8.index(after: start) }
        return String(text[start...])
    }
}
