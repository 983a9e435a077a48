/// The sums of a count at one moment: what history and metrics need, and nothing of single sockets. A snapshot of many
/// sockets takes long to make; a balance does not.
public struct Balance: Sendable, Hashable, Codable {
    /// Every byte from before this time is counted.
    public var takenAt: Timestamp
    /// The same time on `CLOCK_BOOTTIME`.
    public var takenBoottimeNanoseconds: UInt64
    /// Identifies the count: sums of two counts can't be compared.
    public var countingSince: Timestamp
    /// As ``CaptureLoss/uncountedNanoseconds``.
    public var uncountedNanoseconds: UInt64
    public var bytes: ByteCounts
    /// By ``SocketScope``.
    public var byScope: [String: ByteCounts]
    /// By the name of the class of the remote address.
    public var byClass: [String: ByteCounts]
    public var groups: GroupTotals
    /// By route. An endpoint keeps its place for good, and new ones come last.
    public var endpoints: [EndpointSum]
    public var interfaces: InterfaceTotals

    public init(
        takenAt: Timestamp,
        takenBoottimeNanoseconds: UInt64,
        countingSince: Timestamp,
        uncountedNanoseconds: UInt64 = 0,
        bytes: ByteCounts = ByteCounts(),
        byScope: [String: ByteCounts] = [:],
        byClass: [String: ByteCounts] = [:],
        groups: GroupTotals = GroupTotals(),
        endpoints: [EndpointSum] = [],
        interfaces: InterfaceTotals = InterfaceTotals()
    ) {
        self.takenAt = takenAt
        self.takenBoottimeNanoseconds = takenBoottimeNanoseconds
        self.countingSince = countingSince
        self.uncountedNanoseconds = uncountedNanoseconds
        self.bytes = bytes
        self.byScope = byScope
        self.byClass = byClass
        self.groups = groups
        self.endpoints = endpoints
        self.interfaces = interfaces
    }

    /// What was moved between two balances. Pending bytes are in no growth.
    ///
    /// A process's bytes reach its group when the daemon knows the process. So the growths of the groups are ``bytes``,
    /// more or less by the change of ``GroupTotals/unknown`` and ``GroupTotals/unowned``.
    public struct Growth: Sendable, Hashable {
        public var bytes = ByteCounts()
        public var byScope: [String: ByteCounts] = [:]
        public var byClass: [String: ByteCounts] = [:]
        /// Only groups that gained something. What a group gained whose life ended meanwhile is in the row `_other` of its
        /// user: nearly always 0, because a life ends some time after its last process.
        public var byGroup: [ProcessGroup: ByteCounts] = [:]
        /// Only endpoints that gained something.
        public var byEndpoint: [ServiceEndpoint: EndpointCounts] = [:]
        /// By name. Only interfaces that gained something.
        public var byInterface: [String: InterfaceCounts] = [:]

        public init() {}
    }

    /// - Parameter earlier: `nil`: the beginning of the count.
    /// - Returns: `nil` if `earlier` is of another count, or later.
    public func growth(since earlier: Balance?) -> Growth? {
        let start = Balance(takenAt: self.takenAt, takenBoottimeNanoseconds: 0, countingSince: self.countingSince)
        let earlier = earlier ?? start
        guard earlier.countingSince == self.countingSince,
            earlier.takenBoottimeNanoseconds <= self.takenBoottimeNanoseconds
        else { return nil }
        var growth = Growth()
        growth.bytes = self.bytes.growth(since: earlier.bytes)
        growth.byScope = Self.growth(self.byScope, since: earlier.byScope)
        growth.byClass = Self.growth(self.byClass, since: earlier.byClass)
        growth.byInterface = self.interfaces.growth(since: earlier.interfaces)
        for (index, sum) in self.endpoints.enumerated() {
            let before = index < earlier.endpoints.count ? earlier.endpoints[index].counts : EndpointCounts()
            guard sum.counts != before else { continue }
            let counts = sum.counts.growth(since: before)
            if counts != EndpointCounts() { growth.byEndpoint[sum.endpoint] = counts }
        }
        var before = Dictionary(earlier.groups.lives.map { ($0.number, $0.bytes) }, uniquingKeysWith: +)
        for life in self.groups.lives {
            let bytes = life.bytes.growth(since: before.removeValue(forKey: life.number) ?? ByteCounts())
            if bytes.hasBytes { growth.byGroup[life.group, default: ByteCounts()] += bytes }
        }
        // The lives that are left have ended.
        var ended = earlier.groups.endedLives
        for life in earlier.groups.lives {
            guard let bytes = before[life.number] else { continue }
            let uid = self.groups.endedLives[life.group.uid] == nil ? nil : life.group.uid
            ended[uid, default: ByteCounts()] += bytes
        }
        for (uid, bytes) in self.groups.endedLives {
            let bytes = bytes.growth(since: ended[uid] ?? ByteCounts())
            if bytes.hasBytes { growth.byGroup[.other(of: uid), default: ByteCounts()] += bytes }
        }
        return growth
    }

    private static func growth(
        _ now: [String: ByteCounts],
        since earlier: [String: ByteCounts]
    ) -> [String: ByteCounts] {
        now.reduce(into: [:]) { $0[$1.key] = $1.value.growth(since: earlier[$1.key] ?? ByteCounts()) }
            .filter(\.value.hasBytes)
    }
}

extension ByteCounts {
    /// A byte was moved, in one direction or the other.
    package var hasBytes: Bool {
        self.payload.total > 0 || [self.wireSent, self.wireReceived, self.retransmitted].contains { $0 ?? 0 > 0 }
    }
}
