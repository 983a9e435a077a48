/// One endpoint of one service: the exchanges that a process group had in one role with one host under one route. In
/// other groupings: all exchanges with one host, or all exchanges with one class of content.
public struct EndpointUsage: Sendable, Decodable, Hashable {
    /// The name of the row in which everything beyond a limit adds up.
    public static let other = "_other"

    /// Microseconds. Exact for few exchanges; otherwise from a histogram with two significant digits, or with one digit
    /// for rows beyond the user's allowance.
    public struct Durations: Sendable, Codable, Hashable {
        public var count: UInt64
        public var p50: UInt64
        public var p90: UInt64
        public var p99: UInt64
        public var max: UInt64

        public init(count: UInt64, p50: UInt64, p90: UInt64, p99: UInt64, max: UInt64) {
            self.count = count
            self.p50 = p50
            self.p90 = p90
            self.p99 = p99
            self.max = max
        }

        package enum CodingKeys: String, CodingKey {
            case count
            case p50 = "p50_us"
            case p90 = "p90_us"
            case p99 = "p99_us"
            case max = "max_us"
        }
    }

    /// One phase of all exchanges that had it; microseconds.
    public struct Phase: Sendable, Codable, Hashable {
        public var count: UInt64
        public var sum: UInt64
        public var max: UInt64

        public init(count: UInt64 = 0, sum: UInt64 = 0, max: UInt64 = 0) {
            self.count = count
            self.sum = sum
            self.max = max
        }

        package enum CodingKeys: String, CodingKey {
            case count
            case sum = "sum_us"
            case max = "max_us"
        }
    }

    /// Message bytes of both directions that brought no result.
    public struct Waste: Sendable, Codable, Hashable {
        /// Bytes of exchanges that failed in any other way than with 429 or 503.
        public var failed: UInt64
        /// Bytes of exchanges answered with 429 or 503.
        public var throttled: UInt64
        /// Bytes of exchanges answered with 3xx other than 304.
        public var redirected: UInt64

        public init(failed: UInt64 = 0, throttled: UInt64 = 0, redirected: UInt64 = 0) {
            self.failed = failed
            self.throttled = throttled
            self.redirected = redirected
        }

        public var total: UInt64 { self.failed &+ self.throttled &+ self.redirected }

        package enum CodingKeys: String, CodingKey {
            case failed = "failed_bytes"
            case throttled = "throttled_bytes"
            case redirected = "redirected_bytes"
        }
    }

    public var process: ProcessGroup
    public var role: EndpointRole
    public var subject: EndpointSubject
    public var requests: UInt64
    public var responses: UInt64
    /// Only outcomes that occurred.
    public var outcomes: [ExchangeOutcome: UInt64]
    /// Exchanges that ended with the same status and as many bytes of a body as the one that ended before. A response that
    /// the daemon does not know is the same as none.
    public var repeated: UInt64
    public var sent: MessageBytes
    public var received: MessageBytes
    /// Bodies of both directions after their content coding was undone; `nil` if not all bodies were decoded.
    public var decodedBody: UInt64?
    /// The sockets' wire bytes, split in proportion to payload.
    public var wireEstimated: UInt64
    public var waste: Waste
    /// Body bytes of both directions, by class of content.
    public var content: [ContentClass: UInt64]
    /// The durations of the exchanges, each with `connect` and `tls` if the exchange had these phases; `nil` before the
    /// first exchange ended.
    public var duration: Durations?
    /// Only phases that occurred.
    public var phases: [ExchangePhase: Phase]
    /// The worst quality of any part.
    public var quality: JoinQuality

    public init(
        process: ProcessGroup,
        role: EndpointRole,
        subject: EndpointSubject,
        requests: UInt64 = 0,
        responses: UInt64 = 0,
        outcomes: [ExchangeOutcome: UInt64] = [:],
        repeated: UInt64 = 0,
        sent: MessageBytes = MessageBytes(),
        received: MessageBytes = MessageBytes(),
        decodedBody: UInt64? = nil,
        wireEstimated: UInt64 = 0,
        waste: Waste = Waste(),
        content: [ContentClass: UInt64] = [:],
        duration: Durations? = nil,
        phases: [ExchangePhase: Phase] = [:],
        quality: JoinQuality = .exact
    ) {
        self.process = process
        self.role = role
        self.subject = subject
        self.requests = requests
        self.responses = responses
        self.outcomes = outcomes
        self.repeated = repeated
        self.sent = sent
        self.received = received
        self.decodedBody = decodedBody
        self.wireEstimated = wireEstimated
        self.waste = waste
        self.content = content
        self.duration = duration
        self.phases = phases
        self.quality = quality
    }

    /// Exchanges that failed.
    public var failures: UInt64 {
        self.outcomes.reduce(0) { $1.key.isFailure ? $0 +| $1.value : $0 }
    }

    package enum CodingKeys: String, CodingKey {
        case process, role, host, route, requests, responses, outcomes, sent, received
        case repeated = "repeated_responses"
        case decodedBody = "decoded_body_bytes"
        case wireEstimated = "wire_bytes_estimated"
        case waste = "wasted"
        case content = "content_bytes"
        case duration, phases, quality
        case contentClass = "content_class"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            process: try container.decode(ProcessGroup.self, forKey: .process),
            role: try container.decode(EndpointRole.self, forKey: .role),
            subject: try EndpointSubject(from: container),
            requests: try container.decode(UInt64.self, forKey: .requests),
            responses: try container.decode(UInt64.self, forKey: .responses),
            outcomes: try container.words(forKey: .outcomes),
            // An earlier daemon or recording has none.
            repeated: try container.decodeIfPresent(UInt64.self, forKey: .repeated) ?? 0,
            sent: try container.decode(MessageBytes.self, forKey: .sent),
            received: try container.decode(MessageBytes.self, forKey: .received),
            decodedBody: try container.decodeIfPresent(UInt64.self, forKey: .decodedBody),
            wireEstimated: try container.decode(UInt64.self, forKey: .wireEstimated),
            waste: try container.decode(Waste.self, forKey: .waste),
            content: try container.words(forKey: .content),
            duration: try container.decodeIfPresent(Durations.self, forKey: .duration),
            phases: try container.words(forKey: .phases),
            quality: try container.decode(JoinQuality.self, forKey: .quality)
        )
    }
}

extension KeyedDecodingContainer {
    /// Decodes an object whose names are words of ours. Words of a later daemon are skipped.
    func words<Word, Value>(forKey key: Key) throws -> [Word: Value]
    where Word: RawRepresentable<String> & Hashable, Value: Decodable {
        let named = try self.decode([String: Value].self, forKey: key)
        return named.reduce(into: [:]) { words, entry in
            if let word = Word(rawValue: entry.key) { words[word] = entry.value }
        }
    }
}
