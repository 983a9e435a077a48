/// One request and at most one response, as the cooperating program reported them.
public struct ExchangeUsage: Sendable, Decodable, Hashable {
    public var process: ProcessIdentity
    /// The name of the process, for processes that are no longer listed.
    public var processName: String
    /// Unique in the process.
    public var exchange: UInt64
    /// The exchange that began a chain of redirects; `nil` if there is no chain.
    public var chain: UInt64?
    /// How many redirects came before this exchange in its chain.
    public var hop: UInt16
    public var role: EndpointRole
    public var method: String
    /// The version of the response, or of the request while there is no response. `nil` if the library does not say.
    public var version: HTTPVersion?
    public var host: String
    public var route: String
    /// `nil` while there is no response.
    public var status: UInt16?
    /// `nil` while the exchange goes on.
    public var outcome: ExchangeOutcome?
    /// The time of the request's first byte. For a library that does not see its sockets: when the library began to
    /// connect.
    public var startedAt: Timestamp
    /// Microseconds; `nil` while the exchange goes on. The duration ends with the last byte of the response and
    /// includes the phases before the request. Counted from ``startedAt``, the time is shorter by these phases.
    public var duration: UInt64?
    /// Microseconds. If a connection is used again, the exchange has no `dns`, `connect` and `tls`: these phases belong
    /// to the connection's first exchange. `connect` is the kernel's own time, from the socket's `SYN_SENT` to
    /// `ESTABLISHED`, unless the library tells a time. `tls` goes from there to what the library takes for the end of
    /// the handshake.
    public var phases: [ExchangePhase: UInt64]
    /// `nil` if no such record came.
    public var request: MessageBytes?
    public var response: MessageBytes?
    /// The socket that carried the exchange, if that is known.
    public var cookie: SocketCookie?
    public var quality: JoinQuality

    public init(
        process: ProcessIdentity,
        processName: String,
        exchange: UInt64,
        chain: UInt64? = nil,
        hop: UInt16 = 0,
        role: EndpointRole,
        method: String,
        version: HTTPVersion? = nil,
        host: String,
        route: String,
        status: UInt16? = nil,
        outcome: ExchangeOutcome? = nil,
        startedAt: Timestamp,
        duration: UInt64? = nil,
        phases: [ExchangePhase: UInt64] = [:],
        request: MessageBytes? = nil,
        response: MessageBytes? = nil,
        cookie: SocketCookie? = nil,
        quality: JoinQuality = .exact
    ) {
        self.process = process
        self.processName = processName
        self.exchange = exchange
        self.chain = chain
        self.hop = hop
        self.role = role
        self.method = method
        self.version = version
        self.host = host
        self.route = route
        self.status = status
        self.outcome = outcome
        self.startedAt = startedAt
        self.duration = duration
        self.phases = phases
        self.request = request
        self.response = response
        self.cookie = cookie
        self.quality = quality
    }

    package enum CodingKeys: String, CodingKey {
        case processName = "process_name"
        case exchange, chain, hop, role, method
        case version = "network_protocol_version"
        case host, route, status, outcome
        case startedAt = "started_at"
        case duration = "duration_us"
        case phases = "phases_us"
        case request, response
        case socketCookie = "socket_cookie"
        case quality
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            process: try ProcessIdentity(from: decoder),
            processName: try container.decode(String.self, forKey: .processName),
            exchange: try container.decode(UInt64.self, forKey: .exchange),
            chain: try container.decodeIfPresent(UInt64.self, forKey: .chain),
            hop: try container.decode(UInt16.self, forKey: .hop),
            role: try container.decode(EndpointRole.self, forKey: .role),
            method: try container.decode(String.self, forKey: .method),
            version: try container.decodeIfPresent(HTTPVersion.self, forKey: .version),
            host: try container.decode(String.self, forKey: .host),
            route: try container.decode(String.self, forKey: .route),
            status: try container.decodeIfPresent(UInt16.self, forKey: .status),
            outcome: try container.decodeIfPresent(ExchangeOutcome.self, forKey: .outcome),
            startedAt: try container.decode(Timestamp.self, forKey: .startedAt),
            duration: try container.decodeIfPresent(UInt64.self, forKey: .duration),
            phases: try container.words(forKey: .phases),
            request: try container.decodeIfPresent(MessageBytes.self, forKey: .request),
            response: try container.decodeIfPresent(MessageBytes.self, forKey: .response),
            cookie: try container.decodeIfPresent(SocketCookie.self, forKey: .socketCookie),
            quality: try container.decode(JoinQuality.self, forKey: .quality)
        )
    }
}

/// The last exchanges that ended, in the order of their ends, then the exchanges that go on.
public struct ExchangeReport: Sendable, Decodable, Hashable {
    public var schemaVersion = Snapshot.currentSchemaVersion
    public var takenAt: Timestamp
    /// The name of the host.
    public var host: String
    public var exchanges: [ExchangeUsage]

    public init(_ reading: Reading) {
        self.takenAt = reading.snapshot.takenAt
        self.host = reading.snapshot.host.name
        self.exchanges = reading.exchanges
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case takenAt = "taken_at"
        case host, exchanges
    }
}
