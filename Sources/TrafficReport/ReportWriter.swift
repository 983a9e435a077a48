/// Makes datagrams. The writer keeps its memory, so that a record costs no allocation.
public struct ReportWriter: Sendable {
    private var memory = [UInt8](repeating: 0, count: Report.largestDatagram)
    /// Where the next record begins.
    private var end = Layout.headerLength
    public private(set) var count = 0

    public init() {}

    public var isEmpty: Bool { self.count == 0 }

    /// - Returns: Whether there was room. If not, ``finish(_:_:)`` makes room.
    public mutating func append(_ record: borrowing Report.Record) -> Bool {
        switch record {
        case .request(let message): self.append(message, as: .request)
        case .response(let message): self.append(message, as: .response)
        case .outcome(let outcome): self.append(outcome)
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
            writer.write(UInt16(self.count))
            writer.write(header.sequence)
            writer.write(header.droppedRecords)
            writer.write(header.sentAt)
        }
        return try body(self.memory.span.extracting(..<self.end))
    }

    /// Removes all records and keeps the memory.
    public mutating func removeAll() {
        (self.end, self.count) = (Layout.headerLength, 0)
    }

    // MARK: Records

    private mutating func append(_ message: borrowing Report.Message, as type: Layout.RecordType) -> Bool {
        self.append(type, Layout.messageLength, message.name.encoded) { $0.write(message) }
    }

    private mutating func append(_ outcome: borrowing Report.Outcome) -> Bool {
        self.append(.outcome, Layout.outcomeLength, outcome.name.encoded) { $0.write(outcome) }
    }

    private mutating func append(_ connection: Report.Connection) -> Bool {
        self.append(.connection, Layout.connectionLength, []) { $0.write(connection) }
    }

    /// - Parameters:
    ///   - fixedLength: Bytes of the fixed part, which every record of this type has.
    ///   - name: The bytes after the fixed part.
    @inline(__always)
    private mutating func append(
        _ type: Layout.RecordType,
        _ fixedLength: Int,
        _ name: [UInt8],
        _ write: (inout ByteWriter) -> Void
    ) -> Bool {
        let length = (Layout.recordHeadLength + fixedLength + name.count + 7) & ~7
        guard self.end + length <= Report.largestDatagram, self.count < UInt16.max else { return false }
        self.memory.withUnsafeMutableBytes { memory in
            var writer = ByteWriter(memory, at: self.end)
            writer.write(type.rawValue)
            writer.write(UInt16(fixedLength))
            writer.write(UInt32(length))
            write(&writer)
            writer.write(name)
            writer.fill(to: self.end + length)
        }
        self.end += length
        self.count += 1
        return true
    }
}

extension ByteWriter {
    fileprivate mutating func write(_ message: borrowing Report.Message) {
        self.write(message.exchange)
        self.write(message.chain)
        self.write(message.cookie)
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
        self.write(message.hop)
        self.write(message.role.rawValue)
        self.write(message.version.rawValue)
        self.write(message.quality.rawValue)
        self.write(message.contentClass.rawValue)
        self.write(message.isIncomplete ? Layout.incomplete : 0)
        self.fill(to: self.offset + 3)
    }

    fileprivate mutating func write(_ outcome: borrowing Report.Outcome) {
        self.write(outcome.exchange)
        self.write(outcome.chain)
        self.write(outcome.startedAt)
        self.write(outcome.duration)
        self.write(outcome.phases.dns ?? Layout.none32)
        self.write(outcome.phases.connect ?? Layout.none32)
        self.write(outcome.phases.tls ?? Layout.none32)
        self.write(outcome.phases.send ?? Layout.none32)
        self.write(outcome.phases.wait ?? Layout.none32)
        self.write(outcome.phases.receive ?? Layout.none32)
        self.write(outcome.role.rawValue)
        self.write(outcome.ending.rawValue)
        self.write(outcome.status)
        self.write(outcome.isFirst ? Layout.first : 0)
        self.fill(to: self.offset + 3)
        self.write(outcome.tlsEndedAt)
    }

    fileprivate mutating func write(_ connection: Report.Connection) {
        self.write(connection.cookie)
        self.write(connection.sent)
        self.write(connection.received)
        self.write(connection.role.rawValue)
        self.write(connection.isOwn ? Layout.own : 0)
        self.fill(to: self.offset + 6)
    }

    private mutating func write(_ remainder: Report.Connection.Remainder) {
        self.write(remainder.tls)
        self.write(remainder.framing)
        self.write(remainder.opaque)
        self.write(remainder.excluded)
    }
}
