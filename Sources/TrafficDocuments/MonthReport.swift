public import TrafficModel

/// What was moved in a month, for people who plan or pay by it. A month is one of the host's local time, as that was then:
/// a month that is over keeps its beginning and end when the host gets another time zone.
public struct MonthReport: Sendable, Decodable, Hashable {
    public var schemaVersion = Snapshot.currentSchemaVersion
    public var host: String
    public var month: CalendarMonth
    /// The bytes of this scope or class alone. Both `nil`: all bytes.
    public var scope: String?
    public var addressClass: String?
    /// The month's beginning.
    public var since: Timestamp
    /// The month's end, or the time of the answer.
    public var until: Timestamp
    /// Both as the host's clock showed them.
    public var localSince: HostTime?
    public var localUntil: HostTime?
    /// As ``HistoryReport/timeZone``.
    public var timeZone: String?
    /// The time in which the daemon counted, and the rest of the time up to ``until``.
    public var countedSeconds: UInt64
    public var missingSeconds: UInt64
    public var totals: ByteCounts
    /// Of 24 hours of the counted time. `nil` below ``leastSeconds``.
    public var dailyAverage: ByteCounts?
    /// The day with the most payload. `nil` if nothing was moved, or if days of this month are removed.
    public var topDay: Day?
    public var intervals: Intervals
    /// Of the rates of the counted intervals in rising order, the one at 95 % of their number, rounded up. `nil` without
    /// such intervals.
    public var percentile95: BitRates?
    public var exceeding: Excess?
    /// ``totals``, and for the rest of the month the average of the counted time. `nil` for a month that is over, and
    /// below ``leastSeconds``.
    public var projection: ByteCounts?

    /// The counted time of which there is an average. Less says too little of a day.
    public static let leastSeconds: UInt64 = 3_600

    /// A day in local time.
    public struct Day: Sendable, Decodable, Hashable {
        /// Its beginning.
        public var time: Timestamp
        /// The same as the host's clock showed it.
        public var localTime: HostTime
        public var bytes: ByteCounts

        public init(time: Timestamp, localTime: HostTime, bytes: ByteCounts) {
            (self.time, self.localTime, self.bytes) = (time, localTime, bytes)
        }

        package enum CodingKeys: String, CodingKey {
            case time
            case localTime = "local_time"
        }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.init(
                time: try container.decode(Timestamp.self, forKey: .time),
                localTime: try container.decode(HostTime.self, forKey: .localTime),
                bytes: try ByteCounts(from: decoder)
            )
        }
    }

    /// The times whose rates are compared.
    public struct Intervals: Sendable, Codable, Hashable {
        public static let length: Int64 = 300

        /// Of one.
        public var seconds: UInt64
        /// That are over.
        public var total: UInt64
        /// Of which the daemon counted some time, and whose sums are not removed.
        public var counted: UInt64

        public init(total: UInt64 = 0, counted: UInt64 = 0) {
            (self.seconds, self.total, self.counted) = (UInt64(Self.length), total, counted)
        }

        package enum CodingKeys: String, CodingKey {
            case seconds
            case total = "count"
            case counted = "counted_count"
        }
    }

    /// Bits per second, rounded down.
    public struct BitRates: Sendable, Codable, Hashable {
        public var payloadSent: UInt64
        public var payloadReceived: UInt64
        /// `nil` if packets were not counted.
        public var wireSent: UInt64?
        public var wireReceived: UInt64?

        public init(payloadSent: UInt64, payloadReceived: UInt64, wireSent: UInt64? = nil, wireReceived: UInt64? = nil)
        {
            (self.payloadSent, self.payloadReceived) = (payloadSent, payloadReceived)
            (self.wireSent, self.wireReceived) = (wireSent, wireReceived)
        }

        package enum CodingKeys: String, CodingKey {
            case payloadSent = "payload_sent_bits_per_second"
            case payloadReceived = "payload_received_bits_per_second"
            case wireSent = "wire_sent_bits_per_second"
            case wireReceived = "wire_received_bits_per_second"
        }
    }

    /// How many counted intervals were above a rate.
    public struct Excess: Sendable, Codable, Hashable {
        public var bitsPerSecond: UInt64
        public var payloadSent: UInt64
        public var payloadReceived: UInt64
        /// `nil` if packets were not counted.
        public var wireSent: UInt64?
        public var wireReceived: UInt64?

        public init(
            bitsPerSecond: UInt64,
            payloadSent: UInt64,
            payloadReceived: UInt64,
            wireSent: UInt64? = nil,
            wireReceived: UInt64? = nil
        ) {
            self.bitsPerSecond = bitsPerSecond
            (self.payloadSent, self.payloadReceived) = (payloadSent, payloadReceived)
            (self.wireSent, self.wireReceived) = (wireSent, wireReceived)
        }

        package enum CodingKeys: String, CodingKey {
            case bitsPerSecond = "rate_bits_per_second"
            case payloadSent = "payload_sent_count"
            case payloadReceived = "payload_received_count"
            case wireSent = "wire_sent_count"
            case wireReceived = "wire_received_count"
        }
    }

    public init(host: String, month: CalendarMonth, since: Timestamp, until: Timestamp) {
        (self.host, self.month, self.since, self.until) = (host, month, since, until)
        (self.countedSeconds, self.missingSeconds) = (0, 0)
        (self.totals, self.intervals) = (ByteCounts(), Intervals())
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case host, month, scope
        case addressClass = "class"
        case since, until
        case localSince = "local_since"
        case localUntil = "local_until"
        case timeZone = "time_zone"
        case countedSeconds = "counted_seconds"
        case missingSeconds = "missing_seconds"
        case totals
        case dailyAverage = "daily_average"
        case topDay = "top_day"
        case intervals
        case percentile95 = "percentile_95"
        case exceeding, projection
    }
}
