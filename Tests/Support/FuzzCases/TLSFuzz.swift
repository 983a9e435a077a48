public import TestSupport
import TrafficKit
import TrafficReport

/// Records of TLS as OpenSSL made them, in any pieces. OpenSSL has said how much plaintext each record has, so the
/// place of each message is known. Damaged records must still be counted.
public struct TLSFuzz: FuzzSubject {
    public static let name = "tls"

    struct Record: Sendable {
        let type: UInt8
        /// Length, with the record's header.
        let bytes: Int
        /// Bytes of plaintext that OpenSSL read from the record.
        let plain: Int
    }

    private let sessions = Traffic.sessions()
    private static let dictionary: [[UInt8]] = [
        [23, 3, 3, 0, 0], [23, 3, 3, 0xff, 0xff], [22, 3, 1, 0, 1], [0], [21, 3, 3, 0, 2],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let session = random.pick(self.sessions)
        let isFromStart = random.isOne(in: 2)
        let from = isFromStart ? 0 : random.number(0..<session.count)
        let records = Array(session[from..<min(session.count, from + random.number(1..<20))])
        var bytes: [UInt8] = []
        var ends: [Int] = []
        for record in records {
            let length = record.bytes - 5
            bytes += [record.type, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)]
            bytes += repeatElement(0xa5, count: length)
            ends.append(bytes.count)
        }
        let base = isFromStart ? 0 : UInt64(random.number(0..<5_000))
        if random.isOne(in: 3) {
            random.mutate(&bytes, Self.dictionary, changes: random.number(1..<4))
            return Self.count(bytes, base, &random)
        }
        let maker = random.pick([TLSStream.Maker.thisProcess, .thisProcess, .peerClient, .peerServer])
        let own =
            random.isOne(in: 4) ? TLSStream(position: 1) : Self.ownStream(is13: Self.overheads(session).contains(22))
        let isOneByOne = random.isOne(in: 4)
        let first = Self.isSteady(records) ? zip(records, ends).first { $0.0.plain > 0 }?.1 : nil
        let pieces = bytes.pieces(isOneByOne ? ends : random.cuts(bytes.count, most: 30) + (first.map { [$0] } ?? []))
        // No place is in doubt where records come one by one, or where the first record does and the others are like
        // that record. For a peer, only wrong exact places are failures, because a part of a session without its
        // handshake may be doubtful.
        let isExact = maker == .thisProcess && (isOneByOne || first != nil)
        var stream = TLSStream(position: base, by: maker)
        if maker != .thisProcess { stream.learn(own.version) }
        return Self.place(records, pieces, base, stream, isExact: isExact, &random).map { text in
            "\(maker) \(text): \(records.map { "\($0.type):\($0.bytes):\($0.plain)" })"
        }
    }

    /// Whether all records of data have plaintext, and a cipher of today adds the same number of bytes to each.
    private static func isSteady(_ records: [Record]) -> Bool {
        let overheads = Self.overheads(records)
        return overheads.count == 1 && overheads.isSubset(of: [21, 22, 29])
    }

    /// How many bytes the records of data add to their plaintext. 0 stands for a record without plaintext.
    private static func overheads(_ records: [Record]) -> Set<Int> {
        Set(records.filter { $0.type == 23 }.map { $0.plain > 0 ? $0.bytes - $0.plain : 0 })
    }

    /// A stream that this process has sent. Its records tell the version of TLS.
    private static func ownStream(is13: Bool) -> TLSStream {
        var stream = TLSStream()
        if is13 { stream.passed(ciphertext: ([23, 3, 3, 0, 53] + [UInt8](repeating: 0, count: 53)).span) }
        if !is13 {
            stream.passed(ciphertext: ([20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40] + [UInt8](repeating: 0, count: 40)).span)
        }
        return stream
    }

    /// Passes any bytes and any amount of plaintext. No message may claim a byte that has not passed, or a byte twice.
    private static func count(_ bytes: [UInt8], _ base: UInt64, _ random: inout Seeded) -> String? {
        var (stream, claims) = (
            TLSStream(position: base, by: random.pick([.thisProcess, .peerClient, .peerServer])), Claims(base)
        )
        var plain: UInt64 = 0
        for piece in random.split(bytes, most: 30) {
            stream.passed(ciphertext: Array(piece).span)
            let count = UInt64(random.number(0..<piece.count + 1))
            stream.passed(plaintext: count)
            plain += count
            stream.settle()
            guard stream.isSettled, random.isOne(in: 2) else { continue }
            if plain > claims.begun, stream.interval(.init(from: claims.begun, to: plain)) != nil,
                let text = claims.take(to: plain, stream)
            {
                return text
            }
            claims.begun = plain
            stream.forget(before: plain, readTo: plain)
        }
        guard stream.position == base + UInt64(bytes.count), claims.bytes + stream.beside <= stream.position else {
            return
                "\(stream.position - base) of \(bytes.count) bytes, \(claims.bytes) of messages, \(stream.beside) beside"
        }
        return nil
    }

    private static func place(
        _ records: [Record],
        _ pieces: [ArraySlice<UInt8>],
        _ base: UInt64,
        _ fresh: TLSStream,
        isExact: Bool,
        _ random: inout Seeded
    ) -> String? {
        let truth = Truth(records, base)
        // `other` gets the same bytes in smaller pieces.
        var (stream, other) = (fresh, fresh)
        var (claims, others) = (Claims(base, truth, isExact: isExact), Claims(base))
        var (position, plain) = (base, UInt64(0))
        let longest = UInt64(random.pick([1, 50, 3_000, 40_000]))
        for piece in pieces {
            stream.passed(ciphertext: Array(piece).span)
            for part in random.split(Array(piece), most: 3) { other.passed(ciphertext: Array(part).span) }
            position += UInt64(piece.count)
            let read = truth.plain(before: position)
            stream.passed(plaintext: read - plain)
            other.passed(plaintext: read - plain)
            stream.settle()
            other.settle()
            guard stream.isSettled, other.isSettled else { return "plaintext has no place before \(position)" }
            // Only a few messages of one byte: they are all alike.
            for number in 0..<9 where claims.begun < read {
                let end = number == 8 ? read : min(read, claims.begun + .random(in: 1...longest, using: &random))
                if let text = claims.take(to: end, stream) ?? others.take(to: end, other) { return text }
            }
            guard claims.bytes == others.bytes, claims.last == others.last, stream.beside == other.beside else {
                return "\(claims.bytes) bytes to \(claims.last), in smaller pieces \(others.bytes) to \(others.last)"
            }
            if read > plain, claims.bytes + stream.beside != truth.end(before: position) {
                return "\(claims.bytes) of messages and \(stream.beside) beside before \(position)"
            }
            plain = read
            stream.forget(before: plain, readTo: plain)
            other.forget(before: plain, readTo: plain)
        }
        return stream.position == position && other.position == position ? nil : "position \(stream.position)"
    }

    /// Messages one behind the other, and what each message has claimed of the stream.
    private struct Claims {
        private let truth: Truth?
        /// Whether all places must be exact.
        private let isExact: Bool
        private(set) var last: UInt64
        private(set) var bytes: UInt64 = 0
        /// Where the message that has not ended begins, in the stream of plaintext.
        var begun: UInt64 = 0

        init(_ base: UInt64, _ truth: Truth? = nil, isExact: Bool = false) {
            (self.last, self.truth, self.isExact) = (base, truth, isExact)
        }

        /// - Returns: What is wrong with the message that ends at `end`; `nil` where nothing is wrong.
        mutating func take(to end: UInt64, _ stream: TLSStream) -> String? {
            guard let (interval, isExact) = stream.interval(.init(from: self.begun, to: end)) else {
                return "\(self.begun)..<\(end) has no place"
            }
            defer { (self.begun, self.last) = (end, interval.to) }
            self.bytes += interval.bytes
            guard interval.from >= self.last, interval.to <= stream.position, interval.isPossible else {
                return "\(self.begun)..<\(end) is at \(interval) behind \(self.last)"
            }
            guard let truth else { return nil }
            let wanted = truth.interval(self.begun, end)
            if isExact, interval != wanted { return "\(self.begun)..<\(end) is at \(interval), not \(wanted)" }
            return isExact || !self.isExact ? nil : "\(self.begun)..<\(end) is not exact"
        }
    }

    /// Where plaintext is, computed from the records themselves.
    private struct Truth {
        private var places: [(plain: UInt64, count: UInt64, from: UInt64, end: UInt64, beside: UInt64)] = []
        private var ends: [UInt64] = []

        init(_ records: [Record], _ base: UInt64) {
            var (plain, from, beside) = (UInt64(0), base, UInt64(0))
            for record in records {
                let (count, bytes) = (UInt64(record.plain), UInt64(record.bytes))
                if count > 0 { self.places.append((plain, count, from, from + bytes, beside)) } else { beside += bytes }
                plain += count
                from += bytes
                self.ends.append(from)
            }
        }

        func plain(before position: UInt64) -> UInt64 {
            self.places.last { $0.end <= position }.map { $0.plain + $0.count } ?? 0
        }

        /// The end of the last record that is complete at `position`.
        func end(before position: UInt64) -> UInt64 { self.ends.last { $0 <= position } ?? 0 }

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
