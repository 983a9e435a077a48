public import TestSupport
import TrafficReport

/// Datagrams of a library. A whole datagram must be read as it was written. A damaged datagram may be read, skipped or
/// malformed, but the records before the damage must be read as they were written. What is read can be written again
/// and comes back the same.
public struct DatagramFuzz: FuzzSubject {
    public static let name = "datagram"

    private static let dictionary: [[UInt8]] = [
        [0xff, 0xff], [0, 0], [0xff, 0xff, 0xff, 0xff], [0x7f, 0xff], [1, 0], [0x80],
    ]
    private static let headerBytes = 24

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let records = (0..<random.number(1..<6)).map { _ in Self.record(&random) }
        let header = Report.Header(
            sequence: UInt32(truncatingIfNeeded: random.next()),
            droppedRecords: UInt32(truncatingIfNeeded: random.next()),
            sentAt: random.next()
        )
        let whole = Self.write(records, header)
        guard let read = Self.read(whole), read.records == records, read.contents?.header == header,
            read.contents.map({ $0.malformedRecords + $0.skippedRecords }) == 0
        else { return "\(records) are read as \(String(describing: Self.read(whole))): \(whole.escaped)" }
        guard !random.isOne(in: 4) else { return nil }
        return Self.damaged(whole, records, &random)
    }

    private static func damaged(_ whole: [UInt8], _ records: [Report.Record], _ random: inout Seeded) -> String? {
        var bytes = whole
        random.mutate(&bytes, Self.dictionary, changes: random.number(1..<6))
        if random.isOne(in: 4) { bytes.removeLast(random.number(0..<bytes.count + 1)) }
        let intact = zip(whole, bytes).prefix { $0 == $1 }.count
        guard let read = Self.read(bytes) else {
            return intact < Self.headerBytes ? nil : "no datagram: \(bytes.escaped)"
        }
        // Type 1 is a name, which is no record of its own. The length of a record stands behind its type and one byte.
        var (end, expected) = (Self.headerBytes, 0)
        while end + 4 <= intact {
            let isName = whole[end] == 1
            end += Int(whole[end + 2]) | Int(whole[end + 3]) << 8
            if end <= intact && !isName { expected += 1 }
        }
        guard intact < Self.headerBytes || read.records.starts(with: records.prefix(expected)) else {
            return "\(read.records) are not what \(expected) intact records say: \(bytes.escaped)"
        }
        let again = Self.write(read.records, Report.Header())
        guard Self.read(again)?.records == read.records else {
            return "what is read can't be written: \(bytes.escaped)"
        }
        return nil
    }

    /// - Returns: `nil` where the bytes are no datagram. Without `contents` the datagram ends too early.
    private static func read(_ bytes: [UInt8]) -> (records: [Report.Record], contents: ReportReader.Contents?)? {
        guard (try? ReportReader.header(of: bytes.span)) != nil else { return nil }
        var records: [Report.Record] = []
        var reader = ReportReader()
        let contents = try? reader.read(bytes.span) { records.append(copy $0) }
        return (records, contents)
    }

    private static func write(_ records: [Report.Record], _ header: Report.Header) -> [UInt8] {
        var writer = ReportWriter()
        _ = writer.append(contentsOf: records)
        return writer.finish(header) { datagram in datagram.withUnsafeBufferPointer { Array($0) } }
    }

    private static func record(_ random: inout Seeded) -> Report.Record {
        guard random.isOne(in: 4) else { return .exchange(Self.exchange(&random)) }
        var connection = Report.Connection(cookie: random.next() | 1)
        for part in [\Report.Connection.sent, \.received] {
            connection[keyPath: part].tls = random.next()
            connection[keyPath: part].framing = random.next()
            connection[keyPath: part].opaque = random.next()
            connection[keyPath: part].excluded = random.next()
        }
        (connection.role, connection.isOwn) = (random.pick(Report.Role.allCases), random.isOne(in: 2))
        return .connection(connection)
    }

    private static func exchange(_ random: inout Seeded) -> Report.Exchange {
        let length = random.pick([0, 1, 7, 60, 1_022])
        let text = { (prefix: String) in prefix + String(repeating: "x", count: length) }
        let name = Report.Name(method: "GET", host: text("h"), route: text("/"))
        var exchange = Report.Exchange(number: random.next() | 1, name: name)
        (exchange.cookie, exchange.startedAt) = (random.next(), random.next() >> 1)
        if random.isOne(in: 3) { exchange.chain = random.next() }
        if random.isOne(in: 3) { exchange.hop = UInt16(truncatingIfNeeded: random.next()) }
        exchange.role = random.pick(Report.Role.allCases)
        // A record has at least one part.
        let parts = random.number(1..<8)
        if parts & 1 != 0 { exchange.request = Self.message(since: exchange.startedAt, &random) }
        if parts & 2 != 0 { exchange.response = Self.message(since: exchange.startedAt, &random) }
        if parts & 4 != 0 { exchange.outcome = Self.outcome(&random) }
        return exchange
    }

    /// - Parameter start: When the exchange began. Two of three messages have numbers that the short form can say.
    private static func message(since start: UInt64, _ random: inout Seeded) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        let shift: UInt64 = random.isOne(in: 3) ? 8 : 50
        message.startedAt = start + random.next() >> (shift + 1)
        message.finishedAt = message.startedAt + random.next() >> (shift + 2)
        message.bodyBytes = random.next() >> shift
        switch random.number(0..<3) {
        case 0: (message.decodedBodyBytes, message.declaredBodyBytes) = (message.bodyBytes, message.bodyBytes)
        case 1: message.decodedBodyBytes = random.next() >> 1
        default: message.declaredBodyBytes = random.next() >> shift
        }
        (message.framingBytes, message.tlsBytes) = (random.next() >> shift, random.next() >> shift)
        message.lineBytes = UInt32(truncatingIfNeeded: random.next() >> shift)
        message.headerBytes = UInt32(truncatingIfNeeded: random.next() >> shift)
        message.cookieBytes = message.headerBytes >> 3
        let (from, bytes) = (random.next() >> 8, message.socketBytes >> 2)
        message.interval = .init(from: from, to: from + bytes)
        if random.isOne(in: 2) { message.interval.to += random.next() >> 40 }
        message.status = UInt16(truncatingIfNeeded: random.next())
        message.version = random.pick(Report.HTTPVersion.allCases)
        message.quality = random.pick(Report.Quality.allCases)
        message.contentClass = random.pick(Report.ContentClass.allCases)
        message.isIncomplete = random.isOne(in: 2)
        return message
    }

    private static func outcome(_ random: inout Seeded) -> Report.Exchange.Outcome {
        var outcome = Report.Exchange.Outcome()
        outcome.duration = random.next()
        for phase in [\Report.Phases.dns, \.connect, \.tls, \.send, \.wait, \.receive] where random.isOne(in: 2) {
            outcome.phases[keyPath: phase] = UInt32(truncatingIfNeeded: random.next() >> 33)
        }
        outcome.ending = random.pick(Report.Ending.allCases)
        outcome.status = UInt16(truncatingIfNeeded: random.next())
        outcome.isFirst = random.isOne(in: 2)
        outcome.tlsEndedAt = random.isOne(in: 2) ? 0 : random.next()
        return outcome
    }
}
