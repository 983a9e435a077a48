import TrafficEvents
import TrafficModel
import TrafficReport

/// An exchange as the ledger keeps it. Its texts are in its name, and become an ``ExchangeUsage`` when somebody asks.
struct ListedExchange: Codable {
    private struct End: Codable {
        var outcome: ExchangeOutcome
        /// Microseconds.
        var duration: UInt64
        var phases: Report.Phases
    }

    let process: ProcessIdentity
    private let processName: String
    let number: UInt64
    private let role: EndpointRole
    private let name: Report.Name
    private var chain: UInt64 = 0
    private var hop: UInt16 = 0
    private var cookie: UInt64 = 0
    private(set) var startedAt: Timestamp
    private var version: HTTPVersion?
    private var status: UInt16?
    private var quality = JoinQuality.exact
    private(set) var request: MessageBytes?
    private(set) var response: MessageBytes?
    private(set) var responseKey: ResponseKey?
    private var end: End?

    init(_ exchange: Report.Exchange, of sender: ReportSender, startedAt: Timestamp) {
        self.process = sender.identity
        self.processName = sender.name
        self.number = exchange.number
        self.role = EndpointRole(exchange.role)
        self.name = exchange.name
        self.startedAt = startedAt
    }

    /// Bytes of the messages that the ledger has seen.
    var messageBytes: UInt64 { (self.request?.message ?? 0) &+ (self.response?.message ?? 0) }

    /// Adds the parts of a record that count.
    mutating func add(
        _ exchange: Report.Exchange,
        _ share: ExchangeShare,
        startedAt: Timestamp
    ) {
        self.startedAt = min(self.startedAt, startedAt)
        if share.request != nil || share.response != nil {
            if exchange.chain != 0 { self.chain = exchange.chain }
            if exchange.cookie != 0 { self.cookie = exchange.cookie }
            self.hop = exchange.hop
        }
        if let request = share.request {
            self.request = request.bytes
            self.quality = max(self.quality, request.quality)
            // A request does not overwrite the version that a response told.
            if self.version == nil, let version = exchange.request?.version { self.version = HTTPVersion(version) }
        }
        if let response = share.response, let message = exchange.response {
            self.response = response.bytes
            self.responseKey = ResponseKey(message)
            self.quality = max(self.quality, response.quality)
            self.status = message.status
            self.version = HTTPVersion(message.version) ?? self.version
        }
    }

    mutating func end(with outcome: Report.Exchange.Outcome) {
        self.end = End(
            outcome: ExchangeOutcome(outcome.ending),
            duration: outcome.duration / 1_000,
            phases: outcome.phases
        )
        if outcome.status != 0 { self.status = outcome.status }
    }

    var usage: ExchangeUsage {
        ExchangeUsage(
            process: self.process,
            processName: self.processName,
            exchange: self.number,
            chain: self.chain == 0 ? nil : self.chain,
            hop: self.hop,
            role: self.role,
            method: self.name.method,
            version: self.version,
            host: self.name.host,
            route: self.name.route,
            status: self.status,
            outcome: self.end?.outcome,
            startedAt: self.startedAt,
            duration: self.end?.duration,
            phases: self.end?.phases.named ?? [:],
            request: self.request,
            response: self.response,
            cookie: self.cookie == 0 ? nil : SocketCookie(rawValue: self.cookie),
            quality: self.quality
        )
    }
}

/// How the connection of a client's exchange began.
struct ConnectionStart: Codable {
    /// The times that the kernel saw.
    var times: ConnectTimes
    /// The exchange has the first byte of the socket's stream, so the connection had no exchange before this exchange.
    var isFirst: Bool
}

extension Report.Exchange.Outcome {
    /// Adds the phases `connect` and `tls` to the first exchange of a client's connection, if the library leaves them
    /// open. The library sees a connection only after it is made, but the kernel saw how long that took. Impossible
    /// times add nothing.
    mutating func complete(with connection: ConnectionStart, of exchange: borrowing Report.Exchange) {
        let isFirst = self.isFirst || connection.isFirst
        guard exchange.role != .server, self.phases.connect == nil,
            let connect = Report.Phases.microseconds(connection.times.duration)
        else { return }
        let established = connection.times.endedAt
        if established <= exchange.startedAt {
            let tls = self.tls(after: established, before: exchange.startedAt)
            // Only the first exchange of a connection has a handshake.
            guard isFirst || tls != nil else { return }
            self.phases.connect = connect
            self.extend(by: connection.times.duration)
            guard let tls, self.phases.tls == nil else { return }
            self.phases.tls = Report.Phases.microseconds(tls)
            self.extend(by: tls)
        } else if isFirst, exchange.startedAt <= connection.times.beganAt,
            established - exchange.startedAt <= self.duration,
            self.phases.sum + UInt64(connect) <= self.duration / 1_000
        {
            // The library does not see its sockets, and began to count before it connected.
            self.phases.connect = connect
        }
    }

    /// - Parameter request: When the request began, which is after the handshake.
    /// - Returns: Nanoseconds from `established` to the end of the TLS handshake.
    private func tls(after established: UInt64, before request: UInt64) -> UInt64? {
        guard self.tlsEndedAt != 0, established <= self.tlsEndedAt, self.tlsEndedAt <= request,
            Report.Phases.microseconds(self.tlsEndedAt - established) != nil
        else { return nil }
        return self.tlsEndedAt - established
    }

    private mutating func extend(by nanoseconds: UInt64) {
        let (sum, isTooMuch) = self.duration.addingReportingOverflow(nanoseconds)
        self.duration = isTooMuch ? .max : sum
    }
}

extension Report.Phases {
    /// - Returns: `nil` if the time is longer than a phase can be: 71 minutes.
    fileprivate static func microseconds(_ nanoseconds: UInt64) -> UInt32? { UInt32(exactly: nanoseconds / 1_000) }

    fileprivate var sum: UInt64 {
        [self.dns, self.connect, self.tls, self.send, self.wait, self.receive].reduce(0) { $0 + UInt64($1 ?? 0) }
    }
}
