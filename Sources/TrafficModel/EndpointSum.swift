/// One endpoint of one service, by its whole name: as in its ``EndpointUsage``.
public struct ServiceEndpoint: Sendable, Hashable, Codable {
    public var process: ProcessGroup
    public var role: EndpointRole
    public var host: String
    public var route: String

    public init(process: ProcessGroup, role: EndpointRole, host: String, route: String) {
        self.process = process
        self.role = role
        self.host = host
        self.route = route
    }

    /// The one in which all of a user add up that are too many.
    ///
    /// - Parameter uid: `nil`: of several users.
    package static func other(of uid: UInt32?, _ role: EndpointRole) -> ServiceEndpoint {
        ServiceEndpoint(
            process: .other(of: uid),
            role: role,
            host: EndpointUsage.other,
            route: EndpointUsage.other
        )
    }
}

/// What an endpoint has counted since its first report.
public struct EndpointSum: Sendable, Hashable, Codable {
    public var endpoint: ServiceEndpoint
    public var counts: EndpointCounts

    public init(endpoint: ServiceEndpoint, counts: EndpointCounts) {
        (self.endpoint, self.counts) = (endpoint, counts)
    }
}

/// The numbers of an endpoint that history and alerts need.
public struct EndpointCounts: Sendable, Hashable, Codable {
    public var requests: UInt64
    /// Exchanges that ended, in whatever way, and those of them that failed.
    public var ended: UInt64
    public var failures: UInt64
    /// Exchanges that ended with the same status and as many bytes of a body as the one that ended before.
    public var repeated: UInt64
    public var sent: MessageParts
    public var received: MessageParts

    public init(
        requests: UInt64 = 0,
        ended: UInt64 = 0,
        failures: UInt64 = 0,
        repeated: UInt64 = 0,
        sent: MessageParts = MessageParts(),
        received: MessageParts = MessageParts()
    ) {
        self.requests = requests
        self.ended = ended
        self.failures = failures
        self.repeated = repeated
        self.sent = sent
        self.received = received
    }

    /// Bytes of messages in both directions.
    public var messageBytes: UInt64 { self.sent.message +| self.received.message }

    /// What was added since `earlier`. A number that is behind has added nothing.
    package func growth(since earlier: EndpointCounts) -> EndpointCounts {
        EndpointCounts(
            requests: self.requests -| earlier.requests,
            ended: self.ended -| earlier.ended,
            failures: self.failures -| earlier.failures,
            repeated: self.repeated -| earlier.repeated,
            sent: self.sent.growth(since: earlier.sent),
            received: self.received.growth(since: earlier.received)
        )
    }

    package static func += (left: inout Self, right: Self) {
        left.requests +|= right.requests
        left.ended +|= right.ended
        left.failures +|= right.failures
        left.repeated +|= right.repeated
        left.sent += right.sent
        left.received += right.received
    }
}

/// The bytes of messages in one direction, by three of the classes that ``MessageBytes`` has. Together they are
/// ``MessageBytes/message``.
///
/// Cookies are a part of the header, and TLS belongs to no message. In history both would take room in each row, also in
/// those that have none.
public struct MessageParts: Sendable, Hashable, Codable {
    public var header: UInt64
    public var body: UInt64
    /// Request and status lines, and framing.
    public var rest: UInt64

    public init(header: UInt64 = 0, body: UInt64 = 0, rest: UInt64 = 0) {
        (self.header, self.body, self.rest) = (header, body, rest)
    }

    init(_ bytes: MessageBytes) {
        self.init(header: bytes.header, body: bytes.body, rest: bytes.line &+ bytes.framing)
    }

    /// Unlike ``MessageBytes/message`` this does not wrap: it may be the sum of several.
    public var message: UInt64 { self.header +| self.body +| self.rest }

    /// Senders choose these numbers, so their sums wrap, and a wrapped sum grows by the difference as any other does. A
    /// difference of half of all numbers or more is none: either a number has fallen, or the sender has told of more than
    /// anybody moves.
    func growth(since earlier: MessageParts) -> MessageParts {
        func grown(_ number: KeyPath<MessageParts, UInt64>) -> UInt64 {
            let difference = self[keyPath: number] &- earlier[keyPath: number]
            return difference > UInt64(Int64.max) ? 0 : difference
        }
        return MessageParts(header: grown(\.header), body: grown(\.body), rest: grown(\.rest))
    }

    static func += (left: inout Self, right: Self) {
        left.header +|= right.header
        left.body +|= right.body
        left.rest +|= right.rest
    }
}

extension EndpointCounts {
    /// - Parameters:
    ///   - sent: Of all messages that the service sent. The same holds for `received`.
    package init(
        requests: UInt64,
        ended: UInt64,
        failures: UInt64,
        repeated: UInt64,
        sent: MessageBytes,
        received: MessageBytes
    ) {
        self.init(
            requests: requests,
            ended: ended,
            failures: failures,
            repeated: repeated,
            sent: MessageParts(sent),
            received: MessageParts(received)
        )
    }
}
