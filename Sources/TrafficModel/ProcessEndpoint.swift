/// One endpoint of one process: the process's part of the exchanges of an ``EndpointUsage``. Durations are there, for
/// all processes of the endpoint together.
public struct ProcessEndpoint: Sendable, Decodable, Hashable {
    public var role: EndpointRole
    /// As in ``EndpointSubject/route(host:route:)``. Both are ``EndpointUsage/other`` for everything beyond a limit.
    public var host: String
    public var route: String
    public var requests: UInt64
    public var responses: UInt64
    /// Exchanges that failed, as ``ExchangeOutcome/isFailure`` says.
    public var failures: UInt64
    /// Bytes of messages, as in ``MessageBytes/message``.
    public var sent: UInt64
    public var received: UInt64
    /// The worst quality of any part.
    public var quality: JoinQuality

    public init(
        role: EndpointRole,
        host: String,
        route: String,
        requests: UInt64 = 0,
        responses: UInt64 = 0,
        failures: UInt64 = 0,
        sent: UInt64 = 0,
        received: UInt64 = 0,
        quality: JoinQuality = .exact
    ) {
        self.role = role
        self.host = host
        self.route = route
        self.requests = requests
        self.responses = responses
        self.failures = failures
        self.sent = sent
        self.received = received
        self.quality = quality
    }

    package enum CodingKeys: String, CodingKey {
        case role, host, route, requests, responses, failures
        case sent = "sent_message_bytes"
        case received = "received_message_bytes"
        case quality
    }
}
