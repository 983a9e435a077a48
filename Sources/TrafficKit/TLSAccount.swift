package import TrafficReport

/// Both directions of a TLS connection: turns records about plaintext into records about the socket's stream.
package final class TLSAccount {
    private struct Direction {
        var stream: TLSStream
        /// Records whose plaintext has no place yet, oldest first.
        var waiting: [Report.Record] = []
        /// Bytes of the socket's stream that messages have taken.
        var claimed: UInt64 = 0

        init(position: UInt64, by maker: TLSStream.Maker) {
            self.stream = TLSStream(position: position, by: maker)
        }
    }

    private var sent: Direction
    private var received: Direction
    /// Records that have their place already.
    private var placed: [Report.Record] = []
    private let role: Report.Role
    /// Bytes beside messages, as last reported of the connection.
    private var reported: (sent: UInt64, received: UInt64) = (0, 0)

    /// - Parameters:
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: Bytes of the socket's stream that were received before.
    package init(role: Report.Role, sent: UInt64 = 0, received: UInt64 = 0) {
        self.role = role
        self.sent = Direction(position: sent, by: .thisProcess)
        self.received = Direction(position: received, by: role == .client ? .peerServer : .peerClient)
    }

    /// The state of both directions, for the code that takes over the connection (HTTP/2).
    package var streams: (sent: TLSStream, received: TLSStream) { (self.sent.stream, self.received.stream) }

    /// Counts received bytes. To be called before their plaintext is scanned.
    package func received(ciphertext bytes: Span<UInt8>) {
        self.received.stream.passed(ciphertext: bytes)
    }

    package func received(plaintext count: UInt64) {
        self.received.stream.passed(plaintext: count)
        self.received.stream.settle()
    }

    /// Counts bytes that the kernel has taken. To be called after their plaintext was scanned.
    package func sent(ciphertext bytes: Span<UInt8>) {
        self.sent.stream.sent(ciphertext: bytes, &self.received.stream)
    }

    package func sent(plaintext count: UInt64) {
        self.sent.stream.passed(plaintext: count)
    }

    /// The place of a request that a server holds back until the server answers. To be called when the request ends:
    /// later the place of its bytes is forgotten.
    ///
    /// Received plaintext has its place before the plaintext is scanned.
    package func place(received interval: Report.Interval, _ length: UInt64) -> MessagePlace {
        self.find(interval, length, \.received)
    }

    /// Takes a request that ``place(received:_:)`` has placed.
    package func take(placed record: consuming Report.Record) {
        if case .request(let message) = record { self.received.claimed += message.interval.bytes }
        self.placed.append(record)
    }

    /// Takes over a record about plaintext. ``report(of:isLast:_:)`` reports the record when its bytes have their
    /// place.
    package func take(_ record: Report.Record) {
        switch record {
        case .request, .response: self.take(record, isSent: self.isSent(record))
        case .outcome(let outcome):
            // The outcome comes after the message that ends the exchange.
            let isWaiting = self.sent.waiting.contains { Self.exchange(of: $0) == outcome.exchange }
            self.take(record, isSent: isWaiting)
        case .connection, .exchange: break
        }
    }

    private func take(_ record: Report.Record, isSent: Bool) {
        if isSent { self.sent.waiting.append(record) } else { self.received.waiting.append(record) }
    }

    private func isSent(_ record: Report.Record) -> Bool {
        if case .request = record { self.role == .client } else { self.role == .server }
    }

    private static func exchange(of record: Report.Record) -> UInt64 {
        switch record {
        case .request(let message), .response(let message): message.exchange
        case .outcome(let outcome): outcome.exchange
        case .connection, .exchange: 0
        }
    }

    /// Reports the records that have a place. Also reports the bytes that TLS has moved beside messages: when an
    /// exchange ends if there are more of them, and when the connection ends.
    ///
    /// - Parameters:
    ///   - exchanges: The exchanges that made the records.
    ///   - isLast: The connection is over.
    package func report(
        of exchanges: HTTP1Exchanges,
        isLast: Bool = false,
        _ report: (consuming Report.Record) -> Void
    ) {
        var hasEnded = isLast
        for record in self.placed { report(record) }
        self.placed.removeAll()
        for direction in [\TLSAccount.received, \.sent] {
            guard self[keyPath: direction].stream.isSettled || isLast else { continue }
            for record in self[keyPath: direction].waiting {
                if case .outcome = record { hasEnded = true }
                report(self.placed(record, direction))
            }
            self[keyPath: direction].waiting = []
        }
        if self.received.stream.isSettled { self.received.stream.forget(before: exchanges.starts.received) }
        if self.sent.stream.isSettled { self.sent.stream.forget(before: exchanges.starts.sent) }
        if hasEnded { self.reportConnection(exchanges, isLast, report) }
    }

    private func placed(
        _ record: Report.Record,
        _ direction: ReferenceWritableKeyPath<TLSAccount, Direction>
    ) -> Report.Record {
        switch record {
        case .request(var message):
            message.take(self.place(message.interval, message.messageBytes, direction))
            return .request(message)
        case .response(var message):
            message.take(self.place(message.interval, message.messageBytes, direction))
            return .response(message)
        case .outcome, .connection, .exchange: return record
        }
    }

    private func place(
        _ interval: Report.Interval,
        _ length: UInt64,
        _ direction: ReferenceWritableKeyPath<TLSAccount, Direction>
    ) -> MessagePlace {
        let place = self.find(interval, length, direction)
        self[keyPath: direction].claimed += place.interval.bytes
        return place
    }

    private func find(
        _ interval: Report.Interval,
        _ length: UInt64,
        _ direction: ReferenceWritableKeyPath<TLSAccount, Direction>
    ) -> MessagePlace {
        // If the message's ciphertext never passed, the place is unknown.
        let found = self[keyPath: direction].stream.interval(interval)
        let place = found?.interval ?? Report.Interval()
        return MessagePlace(
            interval: place,
            tlsBytes: place.bytes - min(length, place.bytes),
            quality: found?.isExact == true ? .exact : .inferred
        )
    }

    /// While the connection lasts, this reports the records without plaintext. At the end it reports all bytes that no
    /// message took. Records that carry messages that the app keeps out are part of these bytes.
    private func reportConnection(
        _ exchanges: HTTP1Exchanges,
        _ isLast: Bool,
        _ report: (consuming Report.Record) -> Void
    ) {
        let bytes = (sent: self.sent.stream.beside, received: self.received.stream.beside)
        guard exchanges.cookie != 0, isLast || bytes != self.reported else { return }
        self.reported = bytes
        var connection = Report.Connection(cookie: exchanges.cookie)
        connection.role = self.role
        (connection.sent, connection.received) = exchanges.remainders
        connection.sent.tls = isLast ? Self.rest(self.sent, connection.sent) : bytes.sent
        connection.received.tls = isLast ? Self.rest(self.received, connection.received) : bytes.received
        report(.connection(connection))
    }

    private static func rest(_ direction: Direction, _ remainder: Report.Connection.Remainder) -> UInt64 {
        let known = direction.claimed + remainder.framing + remainder.opaque + remainder.excluded
        return direction.stream.position - min(known, direction.stream.position)
    }
}
