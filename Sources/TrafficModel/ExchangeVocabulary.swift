/// Whether a process is the HTTP client or the HTTP server of its connections.
public enum EndpointRole: String, Sendable, Codable, CaseIterable {
    case client, server
}

/// A version of HTTP. Raw values are those of OpenTelemetry's `network.protocol.version`.
public enum HTTPVersion: String, Sendable, Codable, CaseIterable {
    case http1_0 = "1.0"
    case http1_1 = "1.1"
    case http2 = "2"
    case http3 = "3"
}

/// How an exchange ended. `cancelled` is the program's own decision, and not a failure.
public enum ExchangeOutcome: String, Sendable, Codable, CaseIterable {
    case ok
    case http4xx = "http_4xx"
    case http5xx = "http_5xx"
    case dns, refused, reset, timeout, tls, truncated, cancelled
    /// The library does not say.
    case unknown

    public var isFailure: Bool {
        switch self {
        case .ok, .cancelled, .unknown: false
        default: true
        }
    }
}

/// How a number about an exchange was found, best first.
public enum JoinQuality: String, Sendable, Codable, CaseIterable, Comparable {
    /// Counted where the bytes pass, and not more than the kernel's own count of the socket.
    case exact
    /// Worked out from related numbers: the socket's counters before and after, a port, a time.
    case inferred
    /// Computed with a formula.
    case estimated

    private var rank: Int {
        switch self {
        case .exact: 0
        case .inferred: 1
        case .estimated: 2
        }
    }

    public static func < (left: JoinQuality, right: JoinQuality) -> Bool { left.rank < right.rank }
}

/// The kind of a body, by its `Content-Type`.
public enum ContentClass: String, Sendable, Codable, CaseIterable {
    case none, json, html, image, script, stream, form, text, other, unknown
}

/// The phases of an exchange, in their order.
public enum ExchangePhase: String, Sendable, Codable, CaseIterable {
    case dns, connect, tls, send, wait, receive
}
