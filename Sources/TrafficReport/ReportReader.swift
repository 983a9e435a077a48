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

/// Reads datagrams. No datagram can make the reader read beyond its end, loop forever, or allocate more than the
/// datagram's own size.
public struct ReportReader {
    /// The contents of a datagram.
    public struct Contents: Hashable, Sendable {
        public var header: Report.Header
        /// Records of types that this reader does not know: a later library writes them.
        public var skippedRecords = 0
        /// Records with impossible numbers, or with strings that do not fit.
        public var malformedRecords = 0
    }

    /// - Parameter body: Gets every record, in order. If the reader throws, the records before the error have been
    ///   handed over.
    /// - Throws: ``ReportError``.
    public static func read(
        _ datagram: Span<UInt8>,
        _ body: (Report.Record) -> Void
    ) throws(ReportError) -> Contents {
        var (reader, start) = try Self.start(of: datagram)
        let count = Int(reader.number(datagram) as UInt16)
        var contents = Contents(header: Self.header(&reader, datagram))
        var names = NameReader()
        for index in 0..<count {
            guard datagram.count - start >= Layout.recordHeadLength else { throw .truncated(record: index) }
            let rest = datagram.extracting(start..<datagram.count)
            var head = ByteReader()
            let type: UInt16 = head.number(rest)
            let fixedLength = Int(head.number(rest) as UInt16)
            let length = Int(head.number(rest) as UInt32)
            guard length >= Layout.recordHeadLength + fixedLength, length <= rest.count else {
                throw .truncated(record: index)
            }
            let stringsStart = Layout.recordHeadLength + fixedLength
            let fixed = rest.extracting(Layout.recordHeadLength..<stringsStart)
            let strings = rest.extracting(stringsStart..<length)
            if let type = Layout.RecordType(rawValue: type) {
                if let record = Self.record(type, fixed, names.name(strings)) {
                    body(record)
                } else {
                    contents.malformedRecords += 1
                }
            } else {
                contents.skippedRecords += 1
            }
            start += length
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

    private static func record(
        _ type: Layout.RecordType,
        _ fixed: Span<UInt8>,
        _ name: Report.Name?
    ) -> Report.Record? {
        switch (type, name) {
        case (.request, let name?): Self.message(fixed, name).map(Report.Record.request)
        case (.response, let name?): Self.message(fixed, name).map(Report.Record.response)
        case (.outcome, let name?): Self.outcome(fixed, name).map(Report.Record.outcome)
        case (.connection, _): Self.connection(fixed).map(Report.Record.connection)
        case (_, nil): nil
        }
    }

    private static func message(_ fixed: Span<UInt8>, _ name: Report.Name) -> Report.Message? {
        var reader = ByteReader()
        var message = Report.Message(exchange: reader.number(fixed), name: name)
        message.chain = reader.number(fixed)
        message.cookie = reader.number(fixed)
        message.interval = Report.Interval(
            from: reader.number(fixed),
            to: reader.number(fixed),
            bytes: reader.number(fixed)
        )
        message.startedAt = reader.number(fixed)
        message.finishedAt = reader.number(fixed)
        message.bodyBytes = reader.number(fixed)
        message.decodedBodyBytes = Self.known(reader.number(fixed), Layout.none64)
        message.declaredBodyBytes = Self.known(reader.number(fixed), Layout.none64)
        message.framingBytes = reader.number(fixed)
        message.tlsBytes = reader.number(fixed)
        message.lineBytes = reader.number(fixed)
        message.headerBytes = reader.number(fixed)
        message.cookieBytes = reader.number(fixed)
        message.status = reader.number(fixed)
        message.hop = reader.number(fixed)
        message.role = Report.Role(rawValue: reader.number(fixed)) ?? .unknown
        message.version = Report.HTTPVersion(rawValue: reader.number(fixed)) ?? .unknown
        message.quality = Report.Quality(rawValue: reader.number(fixed)) ?? .unknown
        message.contentClass = Report.ContentClass(rawValue: reader.number(fixed)) ?? .other
        message.isIncomplete = reader.number(fixed) & Layout.incomplete != 0
        let isPossible = message.exchange != 0 && message.interval.isPossible
        return isPossible && message.cookieBytes <= message.headerBytes ? message : nil
    }

    private static func outcome(_ fixed: Span<UInt8>, _ name: Report.Name) -> Report.Outcome? {
        var reader = ByteReader()
        var outcome = Report.Outcome(exchange: reader.number(fixed), name: name)
        outcome.chain = reader.number(fixed)
        outcome.startedAt = reader.number(fixed)
        outcome.duration = reader.number(fixed)
        outcome.phases.dns = Self.known(reader.number(fixed), Layout.none32)
        outcome.phases.connect = Self.known(reader.number(fixed), Layout.none32)
        outcome.phases.tls = Self.known(reader.number(fixed), Layout.none32)
        outcome.phases.send = Self.known(reader.number(fixed), Layout.none32)
        outcome.phases.wait = Self.known(reader.number(fixed), Layout.none32)
        outcome.phases.receive = Self.known(reader.number(fixed), Layout.none32)
        outcome.role = Report.Role(rawValue: reader.number(fixed)) ?? .unknown
        outcome.ending = Report.Ending(rawValue: reader.number(fixed)) ?? .unknown
        outcome.status = reader.number(fixed)
        outcome.isFirst = reader.number(fixed) & Layout.first != 0
        for _ in 0..<3 { _ = reader.number(fixed) as UInt8 }
        outcome.tlsEndedAt = reader.number(fixed)
        return outcome.exchange == 0 ? nil : outcome
    }

    private static func connection(_ fixed: Span<UInt8>) -> Report.Connection? {
        var reader = ByteReader()
        var connection = Report.Connection(cookie: reader.number(fixed))
        connection.sent.tls = reader.number(fixed)
        connection.sent.framing = reader.number(fixed)
        connection.sent.opaque = reader.number(fixed)
        connection.sent.excluded = reader.number(fixed)
        connection.received.tls = reader.number(fixed)
        connection.received.framing = reader.number(fixed)
        connection.received.opaque = reader.number(fixed)
        connection.received.excluded = reader.number(fixed)
        connection.role = Report.Role(rawValue: reader.number(fixed)) ?? .unknown
        connection.isOwn = reader.number(fixed) & Layout.own != 0
        return connection.cookie == 0 ? nil : connection
    }

    private static func known<Number: Equatable>(_ number: Number, _ none: Number) -> Number? {
        number == none ? nil : number
    }
}

/// Reads names. Records of the same exchange follow one another. So if the bytes of the last name come again, the
/// reader reuses that name.
private struct NameReader {
    private var last: Report.Name?

    /// - Returns: `nil` if the strings do not fit.
    mutating func name(_ strings: Span<UInt8>) -> Report.Name? {
        if let last, strings.starts(with: last.encoded) { return last }
        var reader = ByteReader()
        guard let method = reader.string(strings), let host = reader.string(strings), let route = reader.string(strings)
        else { return nil }
        self.last = Report.Name(method: method, host: host, route: route)
        return self.last
    }
}

extension Span<UInt8> {
    fileprivate func starts(with bytes: [UInt8]) -> Bool {
        self.count >= bytes.count
            && self.withUnsafeBytes { memcmp($0.baseAddress!, bytes, bytes.count) == 0 }
    }
}
