import TestSupport
import TrafficKit
import TrafficReport

/// What the library says of a connection: one record for each exchange, without times, and the connection's last own
/// record.
struct HTTP2Log: Hashable {
    /// How the library sees the connection.
    struct View {
        let isClient: Bool
        let hasRoutes: Bool
        /// Bytes of the socket before the first one, in both directions.
        let base: UInt64
        /// Each piece is a record of TLS.
        let hasTLS: Bool
        let ending: Report.Ending

        init(_ random: inout Seeded) {
            self.isClient = random.isOne(in: 2)
            self.hasRoutes = random.isOne(in: 4)
            self.hasTLS = random.isOne(in: 4)
            self.base = self.hasTLS || random.isOne(in: 2) ? 0 : 1_000
            self.ending = random.pick([.truncated, .timeout])
        }
    }

    /// What an application-data record of TLS 1.3 adds: header, type and tag.
    static let tlsBytes: UInt64 = 22
    private static let cookie: UInt64 = 5

    private(set) var exchanges: [UInt64: Report.Exchange] = [:]
    private(set) var rest = Report.Connection(cookie: Self.cookie)
    /// Bytes of the client and of the server, as the socket moved them.
    private(set) var bytes: [UInt64] = [0, 0]
    /// A part that came twice, or what was kept beyond its limit.
    private(set) var problem: String?

    static func read(_ pieces: [HTTP2Delivery.Piece], _ view: View, _ random: inout Seeded) -> Self {
        let stream = { SocketStream(base: view.base, tls: view.hasTLS ? TLSStream() : nil) }
        let routes = view.hasRoutes ? HTTP2Routes() : nil
        var exchanges = HTTP2Exchanges(
            role: view.isClient ? .client : .server,
            cookie: Self.cookie,
            sent: stream(),
            received: stream(),
            routes: routes,
            naming: HTTP2Naming()
        )
        var (log, time) = (Self(), UInt64(1))
        for piece in pieces {
            time += random.pick([0, 1, 900_000_000])
            let isSent = piece.isClient == view.isClient
            log.bytes[piece.isClient ? 0 : 1] += UInt64(piece.bytes.count) + (view.hasTLS ? Self.tlsBytes : 0)
            if view.hasTLS { Self.encrypt(piece, isSent ? .sent : .received, &exchanges) }
            var found = RecordBatch()
            let tellsOpen = random.isOne(in: 2)
            if piece.isUnseen {
                exchanges.sentUnseen(UInt64(piece.bytes.count), at: time, &found)
            } else if isSent {
                exchanges.sent(piece.bytes.span, at: time, tellsOpen: tellsOpen, &found)
            } else {
                exchanges.received(piece.bytes.span, at: time, tellsOpen: tellsOpen, &found)
            }
            if exchanges.isTellable, random.isOne(in: 4) { exchanges.tellOpen(&found) }
            log.take(found)
            log.checkKept(exchanges.kept, isTold: tellsOpen)
        }
        var found = RecordBatch()
        exchanges.close(view.ending, at: time, &found)
        log.take(found)
        if exchanges.pending > 0 { log.problem = "\(exchanges.pending) exchanges are open" }
        return log
    }

    private static func encrypt(_ piece: HTTP2Delivery.Piece, _ side: Side, _ exchanges: inout HTTP2Exchanges) {
        let length = piece.bytes.count + Int(Self.tlsBytes) - 5
        let record = [23, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)] + [UInt8](repeating: 0xa5, count: length)
        exchanges.stream(side).tls?.with {
            $0.passed(ciphertext: record.span)
            $0.passed(plaintext: UInt64(piece.bytes.count))
            $0.settle()
        }
    }

    private mutating func take(_ records: RecordBatch) {
        for record in records {
            switch record {
            case .connection(let connection): self.rest = connection
            case .exchange(let exchange): self.take(Self.timeless(exchange))
            }
        }
    }

    private mutating func take(_ exchange: Report.Exchange) {
        guard var known = self.exchanges[exchange.number] else {
            self.exchanges[exchange.number] = exchange
            return
        }
        let isTwice =
            known.request != nil && exchange.request != nil || known.response != nil && exchange.response != nil
            || known.isOver || known.name != exchange.name
        if isTwice { self.problem = "\(exchange) after \(known)" }
        known.merge(exchange)
        self.exchanges[exchange.number] = known
    }

    private static func timeless(_ exchange: Report.Exchange) -> Report.Exchange {
        var exchange = exchange
        exchange.startedAt = 0
        exchange.request?.startedAt = 0
        exchange.request?.finishedAt = 0
        exchange.response?.startedAt = 0
        exchange.response?.finishedAt = 0
        exchange.outcome?.duration = 0
        exchange.outcome?.phases = Report.Phases()
        return exchange
    }

    /// - Parameter isTold: The messages that have ended have just been told.
    private mutating func checkKept(_ kept: HTTP2Exchanges.Kept, isTold: Bool) {
        let mostTellable = isTold ? 0 : HTTP1Exchanges.mostPending
        let isBounded =
            kept.blockBytes <= 2 * (HTTP2FrameScanner.longestBlock + HTTP2Frame.headerBytes)
            && kept.tableBytes <= 2 * HPACKReader.largestTable && kept.streams <= HTTP1Exchanges.mostPending
            && kept.tellable <= mostTellable
        if !isBounded { self.problem = "keeps \(kept)" }
    }

    /// Checks that each byte of the connection is of one message, or in the connection's own record.
    ///
    /// - Parameter view: How the connection was looked at.
    /// - Returns: Where that is wrong; `nil` where all is right.
    func gap(_ view: View) -> String? {
        if let problem = self.problem { return problem }
        for isClient in [true, false] {
            let messages = self.exchanges.values.compactMap { isClient ? $0.request : $0.response }
            let rest = isClient == view.isClient ? self.rest.sent : self.rest.received
            let all = self.bytes[isClient ? 0 : 1]
            let taken = messages.reduce(0) { $0 + $1.interval.bytes }
            guard taken + rest.framing + rest.opaque + rest.excluded + rest.tls == all else {
                return "\(isClient ? "client" : "server"): \(taken) bytes of messages and \(rest) of \(all)"
            }
            if let text = Self.overlap(messages, view.base..<view.base + all) { return text }
        }
        return nil
    }

    /// Messages may interleave. But no two begin or end at the same byte, and no part of the stream has more bytes than
    /// it is long.
    private static func overlap(_ messages: [Report.Exchange.Message], _ stream: Range<UInt64>) -> String? {
        for message in messages {
            guard message.interval.isPossible, message.socketBytes == message.interval.bytes, message.messageBytes > 0,
                message.cookieBytes <= message.headerBytes, message.interval.from >= stream.lowerBound,
                message.interval.to <= stream.upperBound
            else { return "\(message) in \(stream)" }
        }
        let sorted = messages.map(\.interval).sorted { $0.to < $1.to }
        guard Set(sorted.map(\.from)).count == sorted.count, Set(sorted.map(\.to)).count == sorted.count else {
            return "two messages have a byte: \(sorted)"
        }
        guard sorted.count < 100 else { return nil }
        for start in sorted.map(\.from) {
            var bytes: UInt64 = 0
            for interval in sorted where interval.from >= start {
                bytes += interval.bytes
                if bytes > interval.to - start { return "\(bytes) bytes from \(start) to \(interval.to)" }
            }
        }
        return nil
    }
}

/// Names an exchange by its request, and keeps out what is private.
final class HTTP2Naming: ExchangeNaming {
    private var last: UInt64 = 0

    func makeExchange() -> UInt64 {
        self.last += 1
        return self.last
    }

    func admits(_ request: MessageHead.Request) -> Bool { !request.target.hasPrefix("/private") }

    func name(of request: MessageHead.Request, _ route: RouteAnswer) -> Report.Name? {
        guard self.admits(request) else { return nil }
        let template = if case .template(let template) = route { template } else { "" }
        return Report.Name(method: request.method, host: request.host, route: template + request.target)
    }
}

/// Each stream has a route of its own.
final class HTTP2Routes: RouteSource {
    func takeRoute(ofRequest number: Int) -> RouteAnswer { .template(Self.prefix(UInt32(number))) }

    static func prefix(_ stream: UInt32) -> String { "\(stream):" }
}
