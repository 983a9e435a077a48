package import TrafficReport

/// One direction of a TLS connection: where on the socket's stream the plaintext lies.
///
/// What a record adds (header, nonce, tag, content type, padding) belongs to its first byte of plaintext. So a message that ends within a
/// record ends there, at that byte, and the next one begins there; messages are disjoint, and with what TLS moves beside plaintext
/// (handshake, tickets, alerts) they add up to every byte.
///
/// From TLS 1.3 on all encrypted records look alike. How much plaintext each of several has follows from how much they have together: the
/// ciphers of today add the same to every record (RFC 5116), and records without plaintext lie side by side. Where that does not fit (CBC
/// ciphers of TLS 1.2, padding of TLS 1.3, and several records at once) the records count as one, and a message that begins or ends within
/// them is ``Report/Quality/inferred``.
package struct TLSStream {
    /// A place between two bytes of the socket's stream.
    package struct Place: Hashable {
        package var position: UInt64
        /// Bytes before it that are no message's.
        package var beside: UInt64
        package var isExact = true
    }

    /// Some plaintext and the record that carries it.
    private struct Segment {
        /// On the stream of plaintext.
        let plain: UInt64
        let plainBytes: UInt64
        let from: UInt64
        let bytes: UInt64
        /// Before it.
        let beside: UInt64
        var isExact = true

        func place(_ plain: UInt64) -> Place {
            if plain == self.plain { return Place(position: self.from, beside: self.beside) }
            let end = self.from + self.bytes
            let position = end - (self.plain + self.plainBytes - plain)
            return Place(position: position, beside: self.beside, isExact: self.isExact || position == end)
        }
    }

    /// What a record adds to its plaintext, header and tag of 16 bytes among it: TLS 1.3 a type, TLS 1.2 with GCM or CCM a nonce, with
    /// ChaCha20-Poly1305 nothing (RFC 8446 section 5.2, RFC 5288 section 3, RFC 7905 section 2).
    private static let overheads: [UInt64] = [overhead13, 29, 21]
    private static let overhead13: UInt64 = 22

    private var scanner: TLSRecordScanner
    /// Records whose plaintext is not known.
    private var records: [TLSRecordScanner.Record] = []
    private var overhead: UInt64?
    /// Bytes of plaintext that have their place.
    private var plain: UInt64 = 0
    /// Further ones.
    private var waiting: UInt64 = 0
    private var segments: [Segment] = []
    /// Of the message that has not ended.
    private var start: (plain: UInt64, place: Place)?
    /// Bytes of records without plaintext, and what had passed before.
    private(set) package var beside: UInt64

    /// - Parameter position: Bytes that had passed before: a handshake.
    package init(position: UInt64 = 0) {
        self.scanner = TLSRecordScanner(position: position)
        self.beside = position
    }

    /// All bytes of the socket's stream so far.
    package var position: UInt64 { self.scanner.position }

    /// Every byte of plaintext has its place.
    package var isSettled: Bool { self.waiting == 0 }

    package mutating func passed(ciphertext bytes: Span<UInt8>) {
        var found: [TLSRecordScanner.Record] = []
        self.scanner.scan(bytes) { found.append($0) }
        self.records += found
    }

    /// Plaintext of records that have passed or are about to.
    package mutating func passed(plaintext count: UInt64) {
        self.waiting += count
    }

    /// Gives all plaintext so far its place. To be called where all of it is known that the records so far carry.
    package mutating func settle() {
        guard self.waiting > 0 else { return }
        let records = self.records.filter { $0.type == TLSRecordScanner.Record.applicationData }
        guard records.reduce(0, { $0 + $1.bytes }) >= self.waiting, let first = records.first, let last = records.last
        else { return }
        if let (overhead, empty) = self.fit(records) {
            var index = 0
            for record in self.records {
                guard record.type == TLSRecordScanner.Record.applicationData else {
                    self.beside += record.bytes
                    continue
                }
                let isEmpty = empty.contains(index) || record.bytes == overhead
                if isEmpty { self.beside += record.bytes } else { self.place(record.bytes - overhead, in: record) }
                index += 1
            }
        } else {
            let others = self.records.filter { $0.from < first.from || $0.from > last.from }
            self.beside += others.reduce(0) { $0 + $1.bytes }
            let end = last.from + last.bytes
            let all = TLSRecordScanner.Record(type: first.type, from: first.from, bytes: end - first.from)
            self.place(self.waiting, in: all, isExact: false)
        }
        (self.records, self.waiting) = ([], 0)
    }

    private mutating func place(_ count: UInt64, in record: TLSRecordScanner.Record, isExact: Bool = true) {
        let segment = Segment(
            plain: self.plain,
            plainBytes: count,
            from: record.from,
            bytes: record.bytes,
            beside: self.beside,
            isExact: isExact
        )
        self.segments.append(segment)
        self.plain += count
    }

    /// What each record adds, and which of them have no plaintext.
    private mutating func fit(_ records: [TLSRecordScanner.Record]) -> (overhead: UInt64, empty: Range<Int>)? {
        if records.count == 1 {
            let overhead = records[0].bytes - self.waiting
            if Self.overheads.contains(overhead) { self.overhead = overhead }
            return (overhead, 0..<0)
        }
        let candidates = (self.overhead.map { [$0] } ?? []) + Self.overheads
        let fitting = candidates.filter { overhead in records.allSatisfy { $0.bytes >= overhead } }
        let all = records.reduce(0) { $0 + $1.bytes }
        if let overhead = fitting.first(where: { all - $0 * UInt64(records.count) == self.waiting }) {
            self.overhead = overhead
            return (overhead, 0..<0)
        }
        for overhead in fitting {
            let plain = records.map { $0.bytes - overhead }
            let sum = plain.reduce(0, +)
            guard sum > self.waiting, let empty = Self.run(of: sum - self.waiting, in: plain) else { continue }
            // Before TLS 1.3 what has no plaintext says so: such records were on their way when the first byte was counted.
            guard overhead == Self.overhead13 || self.plain == 0 && empty.lowerBound == 0 else { continue }
            self.overhead = overhead
            return (overhead, empty)
        }
        return nil
    }

    /// The neighbours that add up to this, where no others do: which of several have no plaintext nobody can tell.
    private static func run(of sum: UInt64, in numbers: [UInt64]) -> Range<Int>? {
        var (start, total, found) = (0, UInt64(0), nil as Range<Int>?)
        for (index, number) in numbers.enumerated() {
            total += number
            while total > sum {
                total -= numbers[start]
                start += 1
            }
            guard total == sum else { continue }
            guard found == nil else { return nil }
            found = start..<index + 1
        }
        return found
    }

    // MARK: Messages

    /// - Parameter interval: Of a message, on the stream of plaintext, where all of it has its place.
    /// - Returns: `nil`: it has none.
    package func interval(_ interval: Report.Interval) -> (interval: Report.Interval, isExact: Bool)? {
        guard let from = self.start(interval.from),
            let to = self.segments.last(where: { $0.plain < interval.to && interval.to <= $0.plain + $0.plainBytes })?
                .place(interval.to)
        else { return nil }
        let bytes = to.position - from.position - (to.beside - from.beside)
        return (.init(from: from.position, to: to.position, bytes: bytes), from.isExact && to.isExact)
    }

    private func start(_ plain: UInt64) -> Place? {
        if let start = self.start, start.plain == plain { return start.place }
        return self.segments.first { $0.plain <= plain && plain < $0.plain + $0.plainBytes }?.place(plain)
    }

    /// Forgets what no message needs any more.
    ///
    /// - Parameter start: Where the message begins that has not ended, on the stream of plaintext.
    package mutating func forget(before start: UInt64) {
        self.start = self.start(start).map { (start, $0) }
        self.segments.removeFirst(max(0, self.segments.count - 1))
    }
}
