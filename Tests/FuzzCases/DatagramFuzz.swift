import TrafficReport

/// Datagrams of a library, damaged: whatever comes, every record is read, skipped or malformed, and what is read can be written.
public struct DatagramFuzz: FuzzSubject {
    public static let name = "datagram"

    private static let dictionary: [[UInt8]] = [
        [0xff, 0xff], [0, 0], [0xff, 0xff, 0xff, 0xff], [0x7f, 0xff], [1, 0], [0x80],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let records = (0..<random.number(1..<6)).map { _ in Self.record(&random) }
        var writer = ReportWriter()
        let count = writer.append(contentsOf: records)
        var bytes: [UInt8] = []
        writer.finish(.init(sequence: 1, sentAt: 5)) { datagram in
            datagram.withUnsafeBufferPointer { bytes = Array($0) }
        }
        let isWhole = random.isOne(in: 4)
        if !isWhole {
            random.mutate(&bytes, Self.dictionary, changes: random.number(1..<6))
            if random.isOne(in: 4) { bytes.removeLast(random.number(0..<bytes.count + 1)) }
        }
        var read: [Report.Record] = []
        do throws(ReportError) {
            let contents = try ReportReader.read(bytes.span) { read.append($0) }
            if isWhole, contents.malformedRecords + contents.skippedRecords > 0 || read.count != count {
                return "\(read.count) of \(count) records: \(bytes.escaped)"
            }
        } catch {
            if isWhole { return "\(error): \(bytes.escaped)" }
        }
        _ = try? ReportReader.header(of: bytes.span)
        for record in read where !writer.append(record) { return "what is read can't be written: \(bytes.escaped)" }
        return nil
    }

    private static func record(_ random: inout Seeded) -> Report.Record {
        let length = random.number(0..<60)
        let text = { (prefix: String) in prefix + String(repeating: "x", count: length) }
        let name = Report.Name(method: "GET", host: text("h"), route: text("/"))
        switch random.number(0..<4) {
        case 0:
            var outcome = Report.Outcome(exchange: random.next(), name: name)
            (outcome.startedAt, outcome.duration, outcome.status) = (random.next(), random.next(), 200)
            return .outcome(outcome)
        case 1:
            var connection = Report.Connection(cookie: random.next() | 1)
            connection.sent.framing = random.next() >> 8
            return .connection(connection)
        default:
            var message = Report.Message(exchange: random.next(), name: name)
            let from = random.next() >> 8
            message.cookie = random.next()
            message.interval = .init(from: from, to: from + 100)
            message.bodyBytes = 60
            message.headerBytes = 40
            return random.isOne(in: 2) ? .request(message) : .response(message)
        }
    }
}
