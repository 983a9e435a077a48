import TrafficKit
import TrafficReport

/// Records of TLS as OpenSSL made them, in any pieces: where each message of their plaintext lies, which OpenSSL has said for each record; and
/// damaged ones, which must be counted all the same.
public struct TLSFuzz: FuzzSubject {
    public static let name = "tls"

    struct Record: Sendable {
        let type: UInt8
        /// With its header.
        let bytes: Int
        /// That OpenSSL has read from it.
        let plain: Int
    }

    private let sessions = Traffic.sessions()
    private static let dictionary: [[UInt8]] = [
        [23, 3, 3, 0, 0], [23, 3, 3, 0xff, 0xff], [22, 3, 1, 0, 1], [0], [21, 3, 3, 0, 2],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let session = random.pick(self.sessions)
        let from = random.number(0..<session.count)
        let records = Array(session[from..<min(session.count, from + random.number(1..<20))])
        var bytes: [UInt8] = []
        for record in records {
            let length = record.bytes - 5
            bytes += [record.type, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)]
            bytes += repeatElement(0xa5, count: length)
        }
        let base = UInt64(random.number(0..<5_000))
        if random.isOne(in: 3) {
            random.mutate(&bytes, Self.dictionary, changes: random.number(1..<4))
            return Self.count(bytes, base, &random)
        }
        return Self.place(records, bytes, base, &random).map { text in
            "\(text): \(records.map { "\($0.type):\($0.bytes):\($0.plain)" })"
        }
    }

    /// Whatever passes, and whatever plaintext comes of it.
    private static func count(_ bytes: [UInt8], _ base: UInt64, _ random: inout Seeded) -> String? {
        var (stream, plain, begun) = (TLSStream(position: base), UInt64(0), UInt64(0))
        for piece in random.split(bytes) {
            stream.passed(ciphertext: Array(piece).span)
            let count = UInt64(random.number(0..<piece.count + 1))
            stream.passed(plaintext: count)
            plain += count
            stream.settle()
            if stream.isSettled, random.isOne(in: 2) {
                _ = stream.interval(.init(from: begun, to: plain))
                begun = plain
                stream.forget(before: begun)
            }
        }
        guard stream.position == base + UInt64(bytes.count), stream.beside <= stream.position else {
            return "\(stream.position - base) of \(bytes.count) bytes, \(stream.beside) beside"
        }
        return nil
    }

    private static func place(
        _ records: [Record],
        _ bytes: [UInt8],
        _ base: UInt64,
        _ random: inout Seeded
    ) -> String? {
        let truth = Truth(records, base)
        var (stream, passed, plain, begun) = (TLSStream(position: base), 0, UInt64(0), UInt64(0))
        let longest = UInt64(random.pick([1, 50, 3_000, 40_000]))
        for piece in random.split(bytes) {
            stream.passed(ciphertext: Array(piece).span)
            passed += piece.count
            let read = truth.plain(before: base + UInt64(passed))
            stream.passed(plaintext: read - plain)
            plain = read
            stream.settle()
            guard stream.isSettled else { return "plaintext has no place behind \(passed) bytes" }
            // Few of the messages of one byte: they are all alike.
            for _ in 0..<8 where begun < plain {
                let end = min(plain, begun + .random(in: 1...longest, using: &random))
                guard let (interval, isExact) = stream.interval(.init(from: begun, to: end)) else {
                    return "\(begun)..<\(end) has no place"
                }
                let wanted = truth.interval(begun, end)
                if isExact, interval != wanted { return "\(begun)..<\(end) is at \(interval), not \(wanted)" }
                begun = end
            }
            stream.forget(before: begun)
            begun = plain
            stream.forget(before: begun)
        }
        guard stream.position == base + UInt64(bytes.count) else { return "position \(stream.position)" }
        return nil
    }

    /// Where plaintext is, by the records themselves.
    private struct Truth {
        private var places: [(plain: UInt64, count: UInt64, from: UInt64, end: UInt64, beside: UInt64)] = []

        init(_ records: [Record], _ base: UInt64) {
            var (plain, from, beside) = (UInt64(0), base, UInt64(0))
            for record in records {
                let (count, bytes) = (UInt64(record.plain), UInt64(record.bytes))
                if count > 0 { self.places.append((plain, count, from, from + bytes, beside)) } else { beside += bytes }
                plain += count
                from += bytes
            }
        }

        func plain(before position: UInt64) -> UInt64 {
            self.places.last { $0.end <= position }.map { $0.plain + $0.count } ?? 0
        }

        func interval(_ from: UInt64, _ to: UInt64) -> Report.Interval {
            guard let first = self.places.first(where: { from < $0.plain + $0.count }),
                let last = self.places.first(where: { to <= $0.plain + $0.count })
            else { return Report.Interval() }
            let start = from == first.plain ? first.from : first.end - (first.plain + first.count - from)
            let end = last.end - (last.plain + last.count - to)
            return .init(from: start, to: end, bytes: end - start - (last.beside - first.beside))
        }
    }
}
