public import TrafficModel

extension [HistoryDimension] {
    /// Reads words with commas between, as people write them.
    ///
    /// - Throws: ``HistoryWordError`` for words by which bytes can't be divided.
    public init(words: String) throws(HistoryWordError) {
        self = []
        for word in words.split(separator: ",", omittingEmptySubsequences: false) {
            guard let dimension = HistoryDimension(rawValue: String(word)) else {
                let known = HistoryDimension.allCases.map(\.rawValue).joined(separator: ", ")
                throw HistoryWordError(description: "'\(word)' is not one of \(known)")
            }
            self.append(dimension)
        }
        if Set(self).count < self.count { throw HistoryWordError(description: "a word comes twice") }
        // Two hosts may have the same route.
        if let route = self.firstIndex(of: .route), !self.contains(.host) { self.insert(.host, at: route) }
        if self.count > 1, let other = self.first(where: { !$0.isOfProcess }) {
            throw HistoryWordError(description: "\(other.rawValue) can't be combined with others")
        }
    }
}

/// Why bytes can't be divided by some words.
public struct HistoryWordError: Error, Sendable, Hashable, CustomStringConvertible {
    public var description: String

    package init(description: String) { self.description = description }
}

/// Who or what moved how much, in which time.
public struct HistoryReport: Sendable, Decodable, Hashable {
    public var schemaVersion = Snapshot.currentSchemaVersion
    public var host: String
    /// The beginning of the first sum that may be in this report.
    public var since: Timestamp
    /// The end of the report: of the question, or the time of the answer.
    public var until: Timestamp
    /// Both as the host's clock showed them.
    public var localSince: HostTime?
    public var localUntil: HostTime?
    /// Of the host at the time of the answer: `Europe/Berlin`. `nil` if it has no such name.
    public var timeZone: String?
    /// The sums that were added up.
    public var level: HistoryLevel
    public var by: [HistoryDimension]
    /// The time in which the daemon counted. Less than the time of the report if the daemon did not run all the time.
    public var countedSeconds: UInt64
    /// The beginning of the first sum of this level that history has. `nil` if it has none.
    public var keptSince: Timestamp?
    /// In the order of time, then the most payload first.
    public var rows: [HistoryRow]
    /// The names without rows, and what they moved. `nil` if each has its row.
    public var others: HistoryRow?
    public var othersCount: Int?
    /// All bytes of that time; for a user who may see only own processes, those of the rows. Of messages and interfaces
    /// always those of the rows.
    public var sums: HistoryAmounts

    public init(
        host: String,
        since: Timestamp,
        until: Timestamp,
        level: HistoryLevel,
        by: [HistoryDimension],
        countedSeconds: UInt64 = 0,
        keptSince: Timestamp? = nil,
        rows: [HistoryRow] = [],
        others: HistoryRow? = nil,
        othersCount: Int? = nil,
        totals: ByteCounts = ByteCounts()
    ) {
        self.host = host
        self.since = since
        self.until = until
        self.level = level
        self.by = by
        self.countedSeconds = countedSeconds
        self.keptSince = keptSince
        self.rows = rows
        self.others = others
        self.othersCount = othersCount
        self.sums = .bytes(totals)
    }

    /// ``sums`` of bytes; nothing for other amounts.
    public var totals: ByteCounts {
        get { self.sums.ofSockets ?? ByteCounts() }
        set { self.sums = .bytes(newValue) }
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case host, since, until
        case localSince = "local_since"
        case localUntil = "local_until"
        case timeZone = "time_zone"
        case level, by
        case countedSeconds = "counted_seconds"
        case keptSince = "kept_since"
        case rows, others
        case othersCount = "others_count"
        case sums = "totals"
    }
}

/// What one name moved, in the whole time or in one minute, hour, day or month.
public struct HistoryRow: Sendable, Decodable, Hashable {
    /// Its beginning. `nil` for the whole time.
    public var time: Timestamp?
    /// The same as the host's clock showed it.
    public var localTime: HostTime?
    public var name: HistoryName
    /// The name of ``HistoryName/uid``. `nil` if that is not known, and without one.
    public var user: String?
    public var amounts: HistoryAmounts

    public init(time: Timestamp? = nil, localTime: HostTime? = nil, name: HistoryName, amounts: HistoryAmounts) {
        (self.time, self.localTime) = (time, localTime)
        self.name = name
        self.amounts = amounts
    }

    package init(
        time: Timestamp? = nil,
        localTime: HostTime? = nil,
        name: HistoryName,
        user: String? = nil,
        bytes: ByteCounts
    ) {
        self.init(time: time, localTime: localTime, name: name, amounts: .bytes(bytes))
        self.user = user
    }

    /// Of sockets; nothing for other amounts.
    public var bytes: ByteCounts { self.amounts.ofSockets ?? ByteCounts() }

    package enum CodingKeys: String, CodingKey {
        case time, user
        case localTime = "local_time"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            time: try container.decodeIfPresent(Timestamp.self, forKey: .time),
            localTime: try container.decodeIfPresent(HostTime.self, forKey: .localTime),
            name: try HistoryName(from: decoder),
            amounts: try HistoryAmounts(from: decoder)
        )
        self.user = try container.decodeIfPresent(String.self, forKey: .user)
    }
}

/// What a row of history stands for: the properties that were asked for, and of these what is known.
public struct HistoryName: Sendable, Codable, Hashable {
    /// Of processes. `_other`: processes beyond the limits of a user, and processes that nobody knows.
    public var process: String?
    public var uid: UInt32?
    public var systemdUnit: String?
    public var containerID: String?
    public var scope: String?
    public var addressClass: String?
    /// Of HTTP messages: `client` or `server`.
    public var role: String?
    /// `_other` for those beyond the limits of a user. The same holds for the next two.
    public var host: String?
    public var route: String?
    public var interface: String?

    public init(
        process: String? = nil,
        uid: UInt32? = nil,
        systemdUnit: String? = nil,
        containerID: String? = nil,
        scope: String? = nil,
        addressClass: String? = nil,
        role: String? = nil,
        host: String? = nil,
        route: String? = nil,
        interface: String? = nil
    ) {
        self.process = process
        self.uid = uid
        self.systemdUnit = systemdUnit
        self.containerID = containerID
        self.scope = scope
        self.addressClass = addressClass
        self.role = role
        self.host = host
        self.route = route
        self.interface = interface
    }

    package enum CodingKeys: String, CodingKey {
        case process = "process_name"
        case uid
        case systemdUnit = "systemd_unit"
        case containerID = "container_id"
        case scope
        case addressClass = "class"
        case role, host, route, interface
    }
}
