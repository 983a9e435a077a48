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
        // The length of a record stands behind its type and the length of its fixed part.
        var (end, expected) = (Self.headerBytes, 0)
        while end + 8 <= intact {
            end += (0..<4).reduce(0) { $0 | Int(whole[end + 4 + $1]) << (8 * $1) }
            if end <= intact { expected += 1 }
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
        let contents = try? ReportReader.read(bytes.span) { records.append($0) }
        return (records, contents)
    }

    private static func write(_ records: [Report.Record], _ header: Report.Header) -> [UInt8] {
        var writer = ReportWriter()
        _ = writer.append(contentsOf: records)
        return writer.finish(header) { datagram in datagram.withUnsafeBufferPointer { Array($0) } }
    }

    private static func record(_ random: inout Seeded) -> Report.Record {
        let length = random.pick([0, 1, 7, 60, 1_022])
        let text = { (prefix: String) in prefix + String(repeating: "x", count: length) }
        let name = Report.Name(method: "GET", host: text("h"), route: text("/"))
        switch random.number(0..<4) {
        case 0: return .outcome(Self.outcome(name, &random))
        case 1:
            var connection = Report.Connection(cookie: random.next() | 1)
            for part in [\Report.Connection.sent, \.received] {
                connection[keyPath: part].tls = random.next()
                connection[keyPath: part].framing = random.next()
                connection[keyPath: part].opaque = random.next()
                connection[keyPath: part].excluded = random.next()
            }
            (connection.role, connection.isOwn) = (random.pick(Report.Role.allCases), random.isOne(in: 2))
            return .connection(connection)
        default:
            let message = Self.message(name, &random)
            return random.isOne(in: 2) ? .request(message) : .response(message)
        }
    }

    private static func message(_ name: Report.Name, _ random: inout Seeded) -> Report.Message {
        var message = Report.Message(exchange: random.next() | 1, name: name)
        let (from, bytes) = (random.next() >> 8, random.next() >> 40)
        message.interval = .init(from: from, to: from + bytes + random.next() >> 60, bytes: bytes)
        (message.chain, message.cookie) = (random.next(), random.next())
        (message.startedAt, message.finishedAt, message.bodyBytes) = (random.next(), random.next(), random.next())
        message.decodedBodyBytes = random.isOne(in: 2) ? nil : random.next() >> 1
        message.declaredBodyBytes = random.isOne(in: 2) ? nil : random.next() >> 1
        (message.framingBytes, message.tlsBytes) = (random.next(), random.next())
        message.lineBytes = UInt32(truncatingIfNeeded: random.next())
        message.headerBytes = UInt32(truncatingIfNeeded: random.next())
        message.cookieBytes = message.headerBytes >> 3
        message.status = UInt16(truncatingIfNeeded: random.next())
        message.hop = UInt16(truncatingIfNeeded: random.next())
        (message.role, message.version) = (random.pick(Report.Role.allCases), random.pick(Report.HTTPVersion.allCases))
        message.quality = random.pick(Report.Quality.allCases)
        message.contentClass = random.pick(Report.ContentClass.allCases)
        message.isIncomplete = random.isOne(in: 2)
        return message
    }

    private static func outcome(_ name: Report.Name, _ random: inout Seeded) -> Report.Outcome {
        var outcome = Report.Outcome(exchange: random.next() | 1, name: name)
        (outcome.chain, outcome.startedAt, outcome.duration) = (random.next(), random.next(), random.next())
        for phase in [\Report.Phases.dns, \.connect, \.tls, \.send, \.wait, \.receive] where random.isOne(in: 2) {
            outcome.phases[keyPath: phase] = UInt32(truncatingIfNeeded: random.next() >> 33)
        }
        (outcome.role, outcome.ending) = (random.pick(Report.Role.allCases), random.pick(Report.Ending.allCases))
        outcome.status = UInt16(truncatingIfNeeded: random.next())
        outcome.isFirst = random.isOne(in: 2)
        outcome.tlsEndedAt = random.next()
        return outcome
    }
}
