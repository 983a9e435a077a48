/// Makes datagrams. The writer keeps its memory, so that a record costs no allocation.
///
/// A datagram spells each name once; the writer knows which names the datagram has. So a program should use one
/// ``Report/Name`` for an endpoint again and again.
public struct ReportWriter: Sendable {
    private var memory = [UInt8](repeating: 0, count: Report.largestDatagram)
    /// Where the next record begins.
    private var end = Layout.headerLength
    /// All records of the datagram, with the names.
    private var allCount = 0
    private var names = NameTable()
    /// Records that were appended. The records of names, which the writer adds, do not count.
    public private(set) var count = 0

    public init() {}

    public var isEmpty: Bool { self.count == 0 }

    /// - Returns: Whether there was room. If not, ``finish(_:_:)`` makes room.
    public mutating func append(_ record: borrowing Report.Record) -> Bool {
        switch record {
        case .exchange(let exchange): self.append(exchange)
        case .connection(let connection): self.append(connection)
        }
    }

    /// - Parameter start: The index of the first record.
    /// - Returns: The index of the first record that did not fit, or the end of `records`.
    public mutating func append(contentsOf records: [Report.Record], from start: Int = 0) -> Int {
        var index = start
        while index < records.count, self.append(records[index]) { index += 1 }
        return index
    }

    /// Writes the parts of an exchange, and its name if the datagram does not have it yet. An exchange without parts
    /// is not written.
    ///
    /// - Returns: As ``append(_:)-(Report.Record)``.
    public mutating func append(_ exchange: borrowing Report.Exchange) -> Bool {
        guard exchange.hasParts else { return true }
        let parts = Layout.Parts(of: exchange)
        let known = self.names.index(of: exchange.name)
        let nameLength = known == nil ? exchange.name.record.count : 0
        guard self.hasRoom(nameLength + parts.length) else { return false }
        let index = known ?? self.spell(exchange.name)
        self.write(parts.length) { $0.write(exchange, parts, name: index) }
        self.count += 1
        return true
    }

    /// - Returns: As ``append(_:)-(Report.Record)``.
    public mutating func append(_ connection: Report.Connection) -> Bool {
        guard self.hasRoom(Layout.connectionLength) else { return false }
        self.write(Layout.connectionLength) { $0.write(connection) }
        self.count += 1
        return true
    }

    /// Hands over a datagram of all records since the last datagram, and removes the records.
    public mutating func finish<Result>(
        _ header: Report.Header,
        _ body: (Span<UInt8>) throws -> Result
    ) rethrows -> Result {
        defer { self.removeAll() }
        return try self.send(header, body)
    }

    /// Hands over the same datagram and keeps the records, for another attempt.
    public mutating func send<Result>(
        _ header: Report.Header,
        _ body: (Span<UInt8>) throws -> Result
    ) rethrows -> Result {
        self.memory.withUnsafeMutableBytes { memory in
            var writer = ByteWriter(memory, at: 0)
            for byte in Layout.magic { writer.write(byte) }
            writer.write(Report.version)
            writer.write(UInt8(Layout.headerLength))
            writer.write(UInt16(self.allCount))
            writer.write(header.sequence)
            writer.write(header.droppedRecords)
            writer.write(header.sentAt)
        }
        return try body(self.memory.span.extracting(..<self.end))
    }

    /// Removes all records and keeps the memory.
    public mutating func removeAll() {
        (self.end, self.allCount, self.count) = (Layout.headerLength, 0, 0)
        self.names.removeAll()
    }

    private func hasRoom(_ length: Int) -> Bool { self.end + length <= Report.largestDatagram }

    /// Writes the record of a name that the datagram does not have.
    ///
    /// - Returns: The name's index.
    private mutating func spell(_ name: Report.Name) -> UInt16 {
        self.write(name.record.count) { $0.write(name.record) }
        return self.names.add(name)
    }

    @inline(__always)
    private mutating func write(_ length: Int, _ write: (inout ByteWriter) -> Void) {
        self.memory.withUnsafeMutableBytes { memory in
            var writer = ByteWriter(memory, at: self.end)
            write(&writer)
        }
        self.end += length
        self.allCount += 1
    }
}

extension Layout.Parts {
    fileprivate init(of exchange: borrowing Report.Exchange) {
        self = []
        if let request = exchange.request {
            self.insert(.request)
            if !request.isShort(since: exchange.startedAt) { self.insert(.longRequest) }
        }
        if let response = exchange.response {
            self.insert(.response)
            if !response.isShort(since: exchange.startedAt) { self.insert(.longResponse) }
        }
        if let outcome = exchange.outcome {
            self.insert(.outcome)
            if outcome.isFirst { self.insert(.first) }
            if outcome.hasSetup { self.insert(.setup) }
        }
        if exchange.chain != 0 || exchange.hop != 0 { self.insert(.chain) }
    }
}

extension Report.Exchange.Message {
    /// Whether the short form can say all of it.
    ///
    /// - Parameter start: When the exchange began.
    fileprivate func isShort(since start: UInt64) -> Bool {
        let times = self.startedAt >= start && self.finishedAt >= self.startedAt
        guard times, self.startedAt - start <= UInt32.max, self.finishedAt - self.startedAt <= UInt32.max else {
            return false
        }
        let interval = self.interval
        guard interval.to >= interval.from, interval.to - interval.from <= UInt32.max,
            interval.bytes == interval.to - interval.from || interval.bytes == self.socketBytes
        else { return false }
        return self.bodyBytes <= UInt32.max && self.framingBytes | self.tlsBytes <= UInt16.max
            && self.lineBytes | self.headerBytes | self.cookieBytes <= UInt16.max
            && (self.decodedBodyBytes ?? self.bodyBytes) == self.bodyBytes
            && (self.declaredBodyBytes ?? self.bodyBytes) == self.bodyBytes
    }
}

extension Report.Exchange.Outcome {
    fileprivate var hasSetup: Bool {
        self.tlsEndedAt != 0 || self.phases.dns != nil || self.phases.connect != nil || self.phases.tls != nil
    }
}

extension ByteWriter {
    fileprivate mutating func write(
        _ exchange: borrowing Report.Exchange,
        _ parts: Layout.Parts,
        name: UInt16
    ) {
        self.write(Layout.RecordType.exchange.rawValue)
        self.write(exchange.role.rawValue)
        self.write(UInt16(truncatingIfNeeded: parts.length))
        self.write(parts.rawValue)
        self.write(name)
        self.write(exchange.number)
        self.write(exchange.cookie)
        self.write(exchange.startedAt)
        if let request = exchange.request {
            if parts.contains(.longRequest) {
                self.writeLong(request)
            } else {
                self.writeShort(request, since: exchange.startedAt)
            }
        }
        if let response = exchange.response {
            if parts.contains(.longResponse) {
                self.writeLong(response)
            } else {
                self.writeShort(response, since: exchange.startedAt)
            }
        }
        if let outcome = exchange.outcome { self.write(outcome, hasSetup: parts.contains(.setup)) }
        guard parts.contains(.chain) else { return }
        self.write(exchange.chain)
        self.write(exchange.hop)
        self.fill(to: self.offset + 6)
    }

    private mutating func writeShort(_ message: borrowing Report.Exchange.Message, since start: UInt64) {
        self.write(message.interval.from)
        self.write(UInt32(truncatingIfNeeded: message.interval.to - message.interval.from))
        self.write(UInt32(truncatingIfNeeded: message.bodyBytes))
        self.write(UInt32(truncatingIfNeeded: message.startedAt - start))
        self.write(UInt32(truncatingIfNeeded: message.finishedAt - message.startedAt))
        self.write(UInt16(truncatingIfNeeded: message.framingBytes))
        self.write(UInt16(truncatingIfNeeded: message.tlsBytes))
        self.write(UInt16(truncatingIfNeeded: message.lineBytes))
        self.write(UInt16(truncatingIfNeeded: message.headerBytes))
        self.write(UInt16(truncatingIfNeeded: message.cookieBytes))
        self.write(message.status)
        self.write(message.version.rawValue)
        self.write(message.quality.rawValue)
        self.write(message.contentClass.rawValue)
        let hasAll = message.interval.bytes == message.interval.to - message.interval.from
        self.write(
            (message.isIncomplete ? Layout.incomplete : 0)
                | (message.decodedBodyBytes != nil ? Layout.isPlainBody : 0)
                | (message.declaredBodyBytes != nil ? Layout.isDeclaredBody : 0)
                | (hasAll ? 0 : Layout.interleaved)
        )
    }

    private mutating func writeLong(_ message: borrowing Report.Exchange.Message) {
        self.write(message.interval.from)
        self.write(message.interval.to)
        self.write(message.interval.bytes)
        self.write(message.startedAt)
        self.write(message.finishedAt)
        self.write(message.bodyBytes)
        self.write(message.decodedBodyBytes ?? Layout.none64)
        self.write(message.declaredBodyBytes ?? Layout.none64)
        self.write(message.framingBytes)
        self.write(message.tlsBytes)
        self.write(message.lineBytes)
        self.write(message.headerBytes)
        self.write(message.cookieBytes)
        self.write(message.status)
        self.write(message.version.rawValue)
        self.write(message.quality.rawValue)
        self.write(message.contentClass.rawValue)
        self.write(message.isIncomplete ? Layout.incomplete : 0)
        self.fill(to: self.offset + 6)
    }

    private mutating func write(_ outcome: borrowing Report.Exchange.Outcome, hasSetup: Bool) {
        self.write(outcome.duration)
        self.write(outcome.phases.send ?? Layout.none32)
        self.write(outcome.phases.wait ?? Layout.none32)
        self.write(outcome.phases.receive ?? Layout.none32)
        self.write(outcome.status)
        self.write(outcome.ending.rawValue)
        self.write(UInt8(0))
        guard hasSetup else { return }
        self.write(outcome.tlsEndedAt)
        self.write(outcome.phases.dns ?? Layout.none32)
        self.write(outcome.phases.connect ?? Layout.none32)
        self.write(outcome.phases.tls ?? Layout.none32)
        self.write(UInt32(0))
    }

    fileprivate mutating func write(_ connection: Report.Connection) {
        self.write(Layout.RecordType.connection.rawValue)
        self.write(connection.role.rawValue)
        self.write(UInt16(Layout.connectionLength))
        self.write(connection.isOwn ? Layout.own : 0)
        self.fill(to: self.offset + 3)
        self.write(connection.cookie)
        self.write(connection.sent)
        self.write(connection.received)
    }

    private mutating func write(_ remainder: Report.Connection.Remainder) {
        self.write(remainder.tls)
        self.write(remainder.framing)
        self.write(remainder.opaque)
        self.write(remainder.excluded)
    }
}
