package import TrafficModel

/// What was moved in one minute: a row of history for each name, before it is written.
public struct HistoryMinute: Sendable {
    /// How many groups of processes a minute may have.
    static let groupLimit = GroupPlaces.Limit(ofUser: 500, inAll: 2_000)

    /// Seconds since 1970.
    var time: Int64
    var countedSeconds: UInt64
    private(set) var bytes: [HistorySeries: ByteCounts]
    /// History has the count up to here when it has this minute.
    var mark: HistoryMark?

    /// - Parameters:
    ///   - time: A time in the minute that gets the bytes.
    ///   - countedSeconds: How long it took.
    package init(_ growth: Balance.Growth, at time: Timestamp, countedSeconds: UInt64) {
        self.time = time.nanosecondsSinceEpoch / 1_000_000_000
        self.countedSeconds = countedSeconds
        self.bytes = [.total: growth.bytes]
        for (scope, bytes) in growth.byScope { self.bytes[.scope(scope)] = bytes }
        for (name, bytes) in growth.byClass { self.bytes[.class(name)] = bytes }
        self.add(growth.byGroup)
    }

    /// Bytes that no group has, when no later minute will tell more.
    mutating func addUngrouped(_ bytes: ByteCounts) { self.add(bytes, to: .group(.other(of: nil))) }

    /// A minute that could not be written becomes part of this one.
    mutating func add(_ earlier: HistoryMinute) {
        self.countedSeconds +|= earlier.countedSeconds
        for (series, bytes) in earlier.bytes { self.bytes[series, default: ByteCounts()] += bytes }
        // The limits hold for the sum, too: else a full disk would become a full memory.
        var groups: [ProcessGroup: ByteCounts] = [:]
        for (series, bytes) in self.bytes {
            guard case .group(let group) = series else { continue }
            groups[group] = bytes
            self.bytes[series] = nil
        }
        self.add(groups)
    }

    /// Beyond the limits, the groups with the least payload add up in the group `_other` of their user.
    private mutating func add(_ groups: [ProcessGroup: ByteCounts]) {
        var places = GroupPlaces(Self.groupLimit)
        for (group, bytes) in groups.sorted(by: { $0.value.payload.total > $1.value.payload.total }) {
            let hasRoom = places.hasRoom(for: group.uid)
            if hasRoom { places.take(for: group.uid) }
            self.add(bytes, to: .group(hasRoom ? group : .other(of: group.uid)))
        }
    }

    private mutating func add(_ bytes: ByteCounts, to series: HistorySeries) {
        guard bytes.hasBytes else { return }
        self.bytes[series, default: ByteCounts()] += bytes
    }
}

/// Whose bytes a sum of history has.
enum HistorySeries: Hashable, Sendable {
    case total
    case scope(String)
    case `class`(String)
    case group(ProcessGroup)

    /// In the database. The numbers stay as they are.
    enum Kind: Int64 {
        case total = 0
        case scope = 1
        case `class` = 2
        case group = 3
    }

    var kind: Kind {
        switch self {
        case .total: .total
        case .scope: .scope
        case .class: .class
        case .group: .group
        }
    }
}
