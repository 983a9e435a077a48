/// Makes datagrams. Keeps its memory, so that a record costs no allocation.
public struct ReportWriter {
    private var writer = ByteWriter(capacity: Report.largestDatagram)
    public private(set) var count = 0

    public init() {
        self.begin()
    }

    public var isEmpty: Bool { self.count == 0 }

    private mutating func begin() {
        self.writer.removeAll()
        self.writer.write(contentsOf: repeatElement(0, count: Layout.headerLength))
        self.count = 0
    }

    /// - Returns: Whether there was room. Where there was none, ``finish(_:)`` makes some.
    public mutating func append(_ record: Report.Record) -> Bool {
        let start = self.writer.count
        self.write(record)
        guard self.writer.count <= Report.largestDatagram, self.count < UInt16.max else {
            self.writer.cut(to: start)
            return false
        }
        self.count += 1
        return true
    }

    /// The datagram of all records since the last one.
    public mutating func finish<Result>(
        _ header: Report.Header,
        _ body: (Span<UInt8>) throws -> Result
    ) rethrows -> Result {
        for (offset, byte) in Layout.magic.enumerated() { self.writer.overwrite(byte, at: offset) }
        self.writer.overwrite(Report.version, at: 4)
        self.writer.overwrite(UInt8(Layout.headerLength), at: 5)
        self.writer.overwrite(UInt16(self.count), at: 6)
        self.writer.overwrite(header.sequence, at: 8)
        self.writer.overwrite(header.droppedRecords, at: 12)
        self.writer.overwrite(header.sentAt, at: 16)
        defer { self.begin() }
        return try body(self.writer.bytes.span)
    }

    private mutating func write(_ record: Report.Record) {
        let start = self.writer.count
        switch record {
        case .request(let message):
            self.head(.request, Layout.messageLength)
            self.write(message)
        case .response(let message):
            self.head(.response, Layout.messageLength)
            self.write(message)
        case .outcome(let outcome):
            self.head(.outcome, Layout.outcomeLength)
            self.write(outcome)
        case .connection(let connection):
            self.head(.connection, Layout.connectionLength)
            self.write(connection)
        }
        self.writer.pad(toMultipleOf: 8)
        self.writer.overwrite(UInt32(self.writer.count - start), at: start + 4)
    }

    private mutating func head(_ type: Layout.RecordType, _ fixedLength: Int) {
        self.writer.write(type.rawValue)
        self.writer.write(UInt16(fixedLength))
        self.writer.write(UInt32(0))  // the whole length, once it is known
    }

    private mutating func write(_ message: Report.Message) {
        self.writer.write(message.exchange)
        self.writer.write(message.chain)
        self.writer.write(message.cookie)
        self.writer.write(message.interval.from)
        self.writer.write(message.interval.to)
        self.writer.write(message.interval.bytes)
        self.writer.write(message.startedAt)
        self.writer.write(message.finishedAt)
        self.writer.write(message.bodyBytes)
        self.writer.write(message.decodedBodyBytes ?? Layout.none64)
        self.writer.write(message.declaredBodyBytes ?? Layout.none64)
        self.writer.write(message.framingBytes)
        self.writer.write(message.tlsBytes)
        self.writer.write(message.lineBytes)
        self.writer.write(message.headerBytes)
        self.writer.write(message.cookieBytes)
        self.writer.write(message.status)
        self.writer.write(message.hop)
        self.writer.write(message.role.rawValue)
        self.writer.write(message.version.rawValue)
        self.writer.write(message.quality.rawValue)
        self.writer.write(message.contentClass.rawValue)
        self.writer.write(message.isIncomplete ? Layout.incomplete : 0)
        self.writer.write(contentsOf: repeatElement(0, count: 3))
        self.writer.write(message.method)
        self.writer.write(message.host)
        self.writer.write(message.route)
    }

    private mutating func write(_ outcome: Report.Outcome) {
        self.writer.write(outcome.exchange)
        self.writer.write(outcome.chain)
        self.writer.write(outcome.startedAt)
        self.writer.write(outcome.duration)
        self.writer.write(outcome.phases.dns ?? Layout.none32)
        self.writer.write(outcome.phases.connect ?? Layout.none32)
        self.writer.write(outcome.phases.tls ?? Layout.none32)
        self.writer.write(outcome.phases.send ?? Layout.none32)
        self.writer.write(outcome.phases.wait ?? Layout.none32)
        self.writer.write(outcome.phases.receive ?? Layout.none32)
        self.writer.write(outcome.role.rawValue)
        self.writer.write(outcome.ending.rawValue)
        self.writer.write(outcome.status)
        self.writer.write(UInt32(0))
        self.writer.write(outcome.method)
        self.writer.write(outcome.host)
        self.writer.write(outcome.route)
    }

    private mutating func write(_ connection: Report.Connection) {
        self.writer.write(connection.cookie)
        self.write(connection.sent)
        self.write(connection.received)
        self.writer.write(connection.role.rawValue)
        self.writer.write(connection.isOwn ? Layout.own : 0)
        self.writer.write(contentsOf: repeatElement(0, count: 6))
    }

    private mutating func write(_ remainder: Report.Connection.Remainder) {
        self.writer.write(remainder.tls)
        self.writer.write(remainder.framing)
        self.writer.write(remainder.opaque)
        self.writer.write(remainder.excluded)
    }
}
