import Glibc

/// Why a datagram cannot be read.
public enum ReportError: Error, Hashable, Sendable {
    /// The datagram does not begin as a report does.
    case notAReport
    /// The datagram has another version of the layout.
    case unknownVersion(UInt8)
    /// The datagram ends within its header, or within the record with this index.
    case truncated(record: Int?)
}

/// Reads datagrams. No datagram can make the reader read beyond its end, loop forever, or keep more than a limited
/// number of names.
///
/// A reader remembers names of earlier datagrams, so that it need not make their texts again.
public struct ReportReader: Sendable {
    /// The contents of a datagram.
    public struct Contents: Hashable, Sendable {
        public var header: Report.Header
        /// Records of types that this reader does not know: a later library writes them.
        public var skippedRecords = 0
        /// Records with impossible numbers, with strings that do not fit, or with a name that the datagram does not
        /// spell.
        public var malformedRecords = 0
    }

    private var memory: NameMemory
    /// The names that the datagram has spelled, in their order. `nil`: a malformed name, so that later names keep their
    /// indexes.
    private var names: [Report.Name?] = []

    /// - Parameter naming: Changes each name when the reader makes it, so that all its records have the changed name.
    public init(naming: @escaping @Sendable (Report.Name) -> Report.Name = { $0 }) {
        self.memory = NameMemory(naming: naming)
    }

    /// - Parameter body: Gets every record, in order. If the reader throws, the records before the error have been
    ///   handed over.
    /// - Throws: ``ReportError``.
    public mutating func read(
        _ datagram: Span<UInt8>,
        _ body: (borrowing Report.Record) -> Void
    ) throws(ReportError) -> Contents {
        var (reader, start) = try Self.start(of: datagram)
        let count = Int(reader.number(datagram) as UInt16)
        var contents = Contents(header: Self.header(&reader, datagram))
        self.names.removeAll(keepingCapacity: true)
        for index in 0..<count {
            guard datagram.count - start >= Layout.shortestRecord else { throw .truncated(record: index) }
            var head = ByteReader(at: start)
            let type: UInt8 = head.number(datagram)
            _ = head.number(datagram) as UInt8
            let length = Int(head.number(datagram) as UInt16)
            guard length >= Layout.shortestRecord, length <= datagram.count - start else {
                throw .truncated(record: index)
            }
            let record = datagram.extracting(start..<start + length)
            start += length
            switch Layout.RecordType(rawValue: type) {
            case .name:
                let name = self.memory.name(of: record)
                if name == nil { contents.malformedRecords += 1 }
                self.names.append(name)
            case .exchange:
                switch self.exchange(record) {
                case .read(let exchange): body(.exchange(exchange))
                case .skipped: contents.skippedRecords += 1
                case .malformed: contents.malformedRecords += 1
                }
            case .connection:
                if let connection = Self.connection(record) {
                    body(.connection(connection))
                } else {
                    contents.malformedRecords += 1
                }
            case nil: contents.skippedRecords += 1
            }
        }
        return contents
    }

    /// Reads the header of a datagram, even if the datagram's records are damaged.
    ///
    /// - Throws: ``ReportError``.
    public static func header(of datagram: Span<UInt8>) throws(ReportError) -> Report.Header {
        var (reader, _) = try Self.start(of: datagram)
        _ = reader.number(datagram) as UInt16
        return Self.header(&reader, datagram)
    }

    /// - Returns: A reader of the bytes after the header's length, and where the records start.
    private static func start(of datagram: Span<UInt8>) throws(ReportError) -> (reader: ByteReader, records: Int) {
        var reader = ByteReader()
        guard datagram.count >= 5, Layout.magic.allSatisfy({ reader.number(datagram) == $0 }) else { throw .notAReport }
        let version: UInt8 = reader.number(datagram)
        guard version == Report.version else { throw .unknownVersion(version) }
        let start = Int(reader.number(datagram) as UInt8)
        guard start >= Layout.headerLength, start <= datagram.count else { throw .truncated(record: nil) }
        return (reader, start)
    }

    private static func header(_ reader: inout ByteReader, _ datagram: Span<UInt8>) -> Report.Header {
        Report.Header(
            sequence: reader.number(datagram),
            droppedRecords: reader.number(datagram),
            sentAt: reader.number(datagram)
        )
    }

    private enum Found {
        case read(Report.Exchange)
        /// The record has only parts that this reader does not know.
        case skipped
        case malformed
    }

    private func exchange(_ record: Span<UInt8>) -> Found {
        var reader = ByteReader(at: 1)
        let role: UInt8 = reader.number(record)
        _ = reader.number(record) as UInt16
        let all = Layout.Parts(rawValue: reader.number(record))
        let index = Int(reader.number(record) as UInt16)
        let parts = all.intersection(.known)
        guard parts.isConsistent, parts.length <= record.count, index < self.names.count, let name = self.names[index]
        else { return .malformed }
        var exchange = Report.Exchange(number: reader.number(record), name: name)
        exchange.cookie = reader.number(record)
        exchange.startedAt = reader.number(record)
        exchange.role = Report.Role(rawValue: role) ?? .unknown
        if parts.contains(.request) {
            let isLong = parts.contains(.longRequest)
            guard let message = reader.message(record, isLong: isLong, since: exchange.startedAt) else {
                return .malformed
            }
            exchange.request = message
        }
        if parts.contains(.response) {
            let isLong = parts.contains(.longResponse)
            guard let message = reader.message(record, isLong: isLong, since: exchange.startedAt) else {
                return .malformed
            }
            exchange.response = message
        }
        if parts.contains(.outcome) { exchange.outcome = reader.outcome(record, parts) }
        if parts.contains(.chain) {
            exchange.chain = reader.number(record)
            exchange.hop = reader.number(record)
        }
        guard exchange.number != 0 else { return .malformed }
        return exchange.hasParts ? .read(exchange) : all == parts ? .malformed : .skipped
    }

    private static func connection(_ record: Span<UInt8>) -> Report.Connection? {
        guard record.count >= Layout.connectionLength else { return nil }
        var reader = ByteReader(at: 1)
        let role: UInt8 = reader.number(record)
        _ = reader.number(record) as UInt16
        let flags: UInt8 = reader.number(record)
        reader = ByteReader(at: 8)
        var connection = Report.Connection(cookie: reader.number(record))
        connection.sent = reader.remainder(record)
        connection.received = reader.remainder(record)
        connection.role = Report.Role(rawValue: role) ?? .unknown
        connection.isOwn = flags & Layout.own != 0
        return connection.cookie == 0 ? nil : connection
    }
}

extension ByteReader {
    /// - Returns: `nil` if the numbers are impossible.
    fileprivate mutating func message(
        _ record: Span<UInt8>,
        isLong: Bool,
        since start: UInt64
    ) -> Report.Exchange.Message? {
        guard let message = isLong ? self.longMessage(record) : self.shortMessage(record, since: start) else {
            return nil
        }
        return message.interval.isPossible && message.cookieBytes <= message.headerBytes ? message : nil
    }

    private mutating func shortMessage(_ record: Span<UInt8>, since start: UInt64) -> Report.Exchange.Message? {
        var message = Report.Exchange.Message()
        let from: UInt64 = self.number(record)
        let length = UInt64(self.number(record) as UInt32)
        message.bodyBytes = UInt64(self.number(record) as UInt32)
        let began = start.addingReportingOverflow(UInt64(self.number(record) as UInt32))
        let ended = began.partialValue.addingReportingOverflow(UInt64(self.number(record) as UInt32))
        let end = from.addingReportingOverflow(length)
        guard !began.overflow, !ended.overflow, !end.overflow else { return nil }
        (message.startedAt, message.finishedAt) = (began.partialValue, ended.partialValue)
        message.framingBytes = UInt64(self.number(record) as UInt16)
        message.tlsBytes = UInt64(self.number(record) as UInt16)
        message.lineBytes = UInt32(self.number(record) as UInt16)
        message.headerBytes = UInt32(self.number(record) as UInt16)
        message.cookieBytes = UInt32(self.number(record) as UInt16)
        let flags = self.words(record, &message)
        message.decodedBodyBytes = flags & Layout.isPlainBody != 0 ? message.bodyBytes : nil
        message.declaredBodyBytes = flags & Layout.isDeclaredBody != 0 ? message.bodyBytes : nil
        let isInterleaved = flags & Layout.interleaved != 0
        message.interval = .init(
            from: from,
            to: end.partialValue,
            bytes: isInterleaved ? message.socketBytes : length
        )
        return message
    }

    private mutating func longMessage(_ record: Span<UInt8>) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = Report.Interval(
            from: self.number(record),
            to: self.number(record),
            bytes: self.number(record)
        )
        message.startedAt = self.number(record)
        message.finishedAt = self.number(record)
        message.bodyBytes = self.number(record)
        message.decodedBodyBytes = Self.known(self.number(record), Layout.none64)
        message.declaredBodyBytes = Self.known(self.number(record), Layout.none64)
        message.framingBytes = self.number(record)
        message.tlsBytes = self.number(record)
        message.lineBytes = self.number(record)
        message.headerBytes = self.number(record)
        message.cookieBytes = self.number(record)
        _ = self.words(record, &message)
        self.skip(6)
        return message
    }

    /// Reads what ends both forms of a message.
    ///
    /// - Returns: The flags.
    private mutating func words(_ record: Span<UInt8>, _ message: inout Report.Exchange.Message) -> UInt8 {
        message.status = self.number(record)
        message.version = Report.HTTPVersion(rawValue: self.number(record)) ?? .unknown
        message.quality = Report.Quality(rawValue: self.number(record)) ?? .unknown
        message.contentClass = Report.ContentClass(rawValue: self.number(record)) ?? .other
        let flags: UInt8 = self.number(record)
        message.isIncomplete = flags & Layout.incomplete != 0
        return flags
    }

    fileprivate mutating func outcome(_ record: Span<UInt8>, _ parts: Layout.Parts) -> Report.Exchange.Outcome {
        var outcome = Report.Exchange.Outcome()
        outcome.duration = self.number(record)
        outcome.phases.send = Self.known(self.number(record), Layout.none32)
        outcome.phases.wait = Self.known(self.number(record), Layout.none32)
        outcome.phases.receive = Self.known(self.number(record), Layout.none32)
        outcome.status = self.number(record)
        outcome.ending = Report.Ending(rawValue: self.number(record)) ?? .unknown
        self.skip(1)
        outcome.isFirst = parts.contains(.first)
        guard parts.contains(.setup) else { return outcome }
        outcome.tlsEndedAt = self.number(record)
        outcome.phases.dns = Self.known(self.number(record), Layout.none32)
        outcome.phases.connect = Self.known(self.number(record), Layout.none32)
        outcome.phases.tls = Self.known(self.number(record), Layout.none32)
        self.skip(4)
        return outcome
    }

    fileprivate mutating func remainder(_ record: Span<UInt8>) -> Report.Connection.Remainder {
        var remainder = Report.Connection.Remainder()
        remainder.tls = self.number(record)
        remainder.framing = self.number(record)
        remainder.opaque = self.number(record)
        remainder.excluded = self.number(record)
        return remainder
    }

    private static func known<Number: Equatable>(_ number: Number, _ none: Number) -> Number? {
        number == none ? nil : number
    }
}

extension Span<UInt8> {
    func equals(_ bytes: [UInt8]) -> Bool {
        self.count == bytes.count
            && self.withUnsafeBytes { memcmp($0.baseAddress!, bytes, bytes.count) == 0 }
    }
}
