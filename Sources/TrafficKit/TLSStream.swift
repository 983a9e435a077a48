package import TrafficReport

/// One direction of a TLS connection: where on the socket's stream the plaintext lies.
///
/// The bytes that a record adds (header, nonce, tag, content type, padding) belong to the record's first byte of
/// plaintext. So a message that ends within a record ends at its last byte there, and the next message begins at that
/// place. Messages do not overlap. Messages and the bytes that TLS moves beside plaintext (handshake, tickets, alerts)
/// add up to every byte.
///
/// From TLS 1.3 on all encrypted records look alike. The stream knows how much plaintext several records have together,
/// and looks for the records that have none. This works because current ciphers add the same number of bytes to every
/// record (RFC 5116). Sometimes no choice fits: several records at once with CBC ciphers of TLS 1.2, or with the
/// padding of TLS 1.3. Sometimes more than one choice fits. In both cases the records count as one.
///
/// A message that begins or ends inside such a group is ``Report/Quality/inferred``. A message that begins or ends at
/// an end of the group is inferred, too, because an alert may be hidden there. Before TLS 1.3 the ends are exact: only
/// small CBC records of a peer may be without plaintext. The same holds for a peer's records beyond the number that the
/// stream keeps.
///
/// A peer may pad its records so that a wrong choice fits (RFC 8446 section 5.4). So a peer's record counts as empty
/// only where TLS allows an empty record. Before the first data these are a client's Finished, which must be there, and
/// a server's handshake and tickets. After data this is an alert. A server can still cause wrong places for the bytes
/// that come in one read with its first data. Any peer can move the places in one read by about a record's overhead,
/// with a last record that looks like an alert. Both harm only the peer's own messages, and the sum of all bytes stays
/// right.
package struct TLSStream {
    /// The side that makes the records.
    package enum Maker: Sendable {
        case thisProcess
        /// A peer may make records of any form.
        case peerClient, peerServer
    }

    /// A place between two bytes of the socket's stream.
    package struct Place: Hashable {
        package var position: UInt64
        /// Bytes before this place that belong to no message.
        package var beside: UInt64
        package var isExact = true
    }

    /// Some plaintext and the record that carries it.
    private struct Segment {
        /// Position on the stream of plaintext.
        let plain: UInt64
        let plainBytes: UInt64
        let from: UInt64
        let bytes: UInt64
        /// Bytes before the segment that belong to no message.
        let beside: UInt64
        var isExact = true
        var areEndsExact = true

        /// Position on the stream of plaintext.
        var end: UInt64 { self.plain + self.plainBytes }

        func place(_ plain: UInt64) -> Place {
            let end = self.from + self.bytes
            let position = plain == self.plain ? self.from : end - (self.plain + self.plainBytes - plain)
            let isEnd = position == self.from || position == end
            return Place(position: position, beside: self.beside, isExact: self.isExact || isEnd && self.areEndsExact)
        }
    }

    /// Bytes that a record adds to its plaintext, with header and tag of 16 bytes. TLS 1.3 adds a content type, TLS 1.2
    /// with GCM or CCM adds a nonce, ChaCha20-Poly1305 adds nothing more (RFC 8446 section 5.2, RFC 5288 section 3, RFC
    /// 7905 section 2).
    private static let overheads: [UInt64] = [overhead13, 29, 21]
    private static let overhead13: UInt64 = 22
    /// Bytes of a Finished record, with any cipher of BoringSSL. The shortest ServerHello of TLS 1.3 has 95 bytes, and
    /// may come after ChangeCipherSpec, too.
    private static let longestFinished: UInt64 = 94
    /// Plaintext bytes of an alert (RFC 8446 section 6).
    private static let alertBytes: UInt64 = 2
    /// The longest CBC record without plaintext: header, a block for the nonce, a digest, the longest padding.
    private static let longestEmpty: UInt64 = 5 + 16 + 64 + 256
    /// How many of a peer's records with unknown plaintext the stream keeps apart. A peer may send any number of
    /// records without plaintext.
    private static let mostRecords = 1_024

    private var scanner: TLSRecordScanner
    /// Records whose plaintext is not known.
    private var records: [TLSRecordScanner.Record] = []
    private var overhead: UInt64?
    private let maker: Maker
    private var isPeers: Bool { self.maker != .thisProcess }
    /// No byte had passed before this stream began.
    private let isFromStart: Bool
    /// The last record was ChangeCipherSpec.
    private var hasChangedCipher = false
    /// This process has sent records that look encrypted. If the stream saw the whole handshake, the version is known
    /// by then.
    private var hasSentData = false
    /// The connection is TLS 1.2 or older. Two things show this: this process has sent data with the overhead of a TLS
    /// 1.2 cipher, or a Finished as a handshake record after ChangeCipherSpec (RFC 5246 section 7.4.9). From TLS 1.3 on
    /// only a second hello may come there, and a second hello is longer (RFC 8446 section D.4). The peer's records show
    /// nothing: a peer may cut a second hello into records of any length.
    package private(set) var isBefore13 = false
    /// For the peer's direction: the records of this process have shown the version.
    private var isVersionKnown = false
    /// Bytes of plaintext that have a place.
    private var plain: UInt64 = 0
    /// Bytes of plaintext that have no place yet.
    private var waiting: UInt64 = 0
    private var segments: [Segment] = []
    /// Where the message begins that has not ended.
    private var start: (plain: UInt64, place: Place)?
    /// Bytes of records without plaintext, and the bytes that had passed before this stream began.
    private(set) package var beside: UInt64

    /// - Parameters:
    ///   - position: Bytes that had passed before: a handshake.
    ///   - maker: The side that makes the records of this direction.
    package init(position: UInt64 = 0, by maker: Maker = .thisProcess) {
        self.scanner = TLSRecordScanner(position: position)
        self.maker = maker
        self.isFromStart = position == 0
        self.beside = position
    }

    /// All bytes of the socket's stream so far.
    package var position: UInt64 { self.scanner.position }

    /// Every byte of plaintext has a place.
    package var isSettled: Bool { self.waiting == 0 }

    package mutating func passed(ciphertext bytes: Span<UInt8>) {
        let known = self.records.count
        self.scanner.scan(bytes, &self.records)
        if !self.isPeers, !self.isBefore13 { self.look(from: known) }
        if self.isPeers || self.scanner.isLost, self.records.count > Self.mostRecords { self.merge() }
    }

    /// Looks at records of this process for signs of the version.
    private mutating func look(from index: Int) {
        for index in index..<self.records.count {
            let record = self.records[index]
            let isFinished = record.type == TLSRecordScanner.Record.handshake && record.bytes <= Self.longestFinished
            if isFinished, self.hasChangedCipher { self.isBefore13 = true }
            self.hasChangedCipher = record.type == TLSRecordScanner.Record.changeCipherSpec
            if record.type == TLSRecordScanner.Record.applicationData { self.hasSentData = true }
        }
    }

    /// Merges all records with unknown plaintext into one. If none of them is a data record, no exactness is lost.
    ///
    /// - Parameter areNone: The records' headers say nothing: any of their bytes may be data.
    private mutating func merge(areNone: Bool = false) {
        guard let first = self.records.first else { return }
        let data = TLSRecordScanner.Record.applicationData
        let isData = areNone || self.records.contains { $0.type == data }
        let bytes = self.records.reduce(0) { $0 + $1.bytes }
        let type = isData ? data : first.type
        self.records = [TLSRecordScanner.Record(type: type, from: first.from, bytes: bytes, isMerged: true)]
    }

    /// What the records of this process show of the TLS version: by the Finished, or by the bytes that a data record
    /// adds, because this process does not pad.
    package var version: (isBefore13: Bool, isKnown: Bool) {
        let isBefore13 = self.isBefore13 || self.overhead != nil && self.overhead != Self.overhead13
        return (isBefore13, isBefore13 || self.overhead != nil || self.isFromStart && self.hasSentData)
    }

    /// Takes over the version that the other direction shows.
    package mutating func learn(_ version: (isBefore13: Bool, isKnown: Bool)) {
        (self.isBefore13, self.isVersionKnown) = version
    }

    /// Counts the plaintext of records that have passed or are about to pass.
    package mutating func passed(plaintext count: UInt64) {
        self.waiting += count
    }

    /// Gives all plaintext so far its place. The caller must have counted all plaintext of the records so far.
    package mutating func settle() {
        guard self.waiting > 0 else { return }
        // A peer's records with less data than was decrypted are not TLS records. On a connection that was joined late
        // a part of the data may be missing.
        if self.isPeers, !self.scanner.mayRestart, self.dataBytes < self.waiting {
            self.scanner.lose()
            self.merge(areNone: true)
        }
        if self.settleOne() || self.settleKnown() { return }
        let records = self.records.filter { $0.type == TLSRecordScanner.Record.applicationData }
        guard self.dataBytes >= self.waiting, let first = records.first, let last = records.last else { return }
        if let (overhead, empty) = self.fit(records) {
            var index = 0
            for record in self.records {
                guard record.type == TLSRecordScanner.Record.applicationData else {
                    self.beside += record.bytes
                    continue
                }
                let isEmpty = empty[index] || record.bytes == overhead
                if isEmpty { self.beside += record.bytes } else { self.place(record.bytes - overhead, in: record) }
                index += 1
            }
        } else {
            let end = last.from + last.bytes
            self.beside += self.records.reduce(0) { $1.from < first.from ? $0 + $1.bytes : $0 }
            let all = TLSRecordScanner.Record(type: first.type, from: first.from, bytes: end - first.from)
            let isAllData = all.bytes == self.dataBytes && !records.contains { $0.isMerged }
            let areEndsData = !self.isPeers || min(first.bytes, last.bytes) > Self.longestEmpty
            let areEndsExact = self.isBefore13 && isAllData && areEndsData
            self.place(self.waiting, in: all, isExact: false, areEndsExact: areEndsExact)
            self.beside += self.records.reduce(0) { $1.from >= end ? $0 + $1.bytes : $0 }
        }
        self.forgetRecords()
    }

    /// Settles a single record, which nearly always carries all that waits.
    ///
    /// - Returns: `false`: there are several records, or it is unknown what the record carries.
    private mutating func settleOne() -> Bool {
        guard self.records.count == 1, self.records[0].type == TLSRecordScanner.Record.applicationData,
            !self.records[0].isMerged, !self.records[0].isRest, self.records[0].bytes >= self.waiting
        else { return false }
        let record = self.records[0]
        self.learn(overhead: record.bytes - self.waiting, of: record)
        self.place(self.waiting, in: record)
        self.forgetRecords()
        return true
    }

    /// Settles several records of this process that all carry plaintext, with a cipher that is known.
    ///
    /// - Returns: `false`: this is not certain.
    private mutating func settleKnown() -> Bool {
        guard !self.isPeers, let overhead = self.overhead else { return false }
        var plain: UInt64 = 0
        for index in self.records.indices {
            guard self.records[index].type == TLSRecordScanner.Record.applicationData, !self.records[index].isMerged,
                !self.records[index].isRest, self.records[index].minorVersion >= 3, self.records[index].bytes > overhead
            else { return false }
            plain += self.records[index].bytes - overhead
        }
        guard plain == self.waiting else { return false }
        for index in self.records.indices { self.place(self.records[index].bytes - overhead, in: self.records[index]) }
        self.forgetRecords()
        return true
    }

    /// All plaintext has its place. The memory of a few records is used again.
    private mutating func forgetRecords() {
        if self.records.count > 16 { self.records = [] } else { self.records.removeFew() }
        self.waiting = 0
    }

    /// Notes the bytes that a record of this process adds, if a cipher is known that adds so many.
    private mutating func learn(overhead: UInt64, of record: TLSRecordScanner.Record) {
        guard !self.isPeers, record.minorVersion >= 3, Self.overheads.contains(overhead) else { return }
        self.overhead = overhead
    }

    /// Bytes of the data records whose plaintext is not known.
    private var dataBytes: UInt64 {
        self.records.reduce(0) { $1.type == TLSRecordScanner.Record.applicationData ? $0 + $1.bytes : $0 }
    }

    private mutating func place(
        _ count: UInt64,
        in record: TLSRecordScanner.Record,
        isExact: Bool = true,
        areEndsExact: Bool = true
    ) {
        let segment = Segment(
            plain: self.plain,
            plainBytes: count,
            from: record.from,
            bytes: record.bytes,
            beside: self.beside,
            isExact: isExact,
            areEndsExact: areEndsExact
        )
        self.segments.append(segment)
        self.plain += count
    }

    /// Finds the bytes that each record adds, and the records without plaintext, if exactly one choice fits.
    private mutating func fit(_ records: [TLSRecordScanner.Record]) -> (overhead: UInt64, empty: [Bool])? {
        guard !records.contains(where: { $0.isMerged }) else { return nil }
        let none = [Bool](repeating: false, count: records.count)
        if records.count == 1 {
            guard !records[0].isRest else { return nil }
            let overhead = records[0].bytes - self.waiting
            self.learn(overhead: overhead, of: records[0])
            return (overhead, none)
        }
        // Before TLS 1.2 the maker of a CBC record chooses its padding, and the record may add as many bytes as another
        // cipher does.
        guard records.allSatisfy({ $0.minorVersion >= 3 }) else { return nil }
        if self.isPeers { return self.fit(peers: records) }
        var fitting: [(overhead: UInt64, empty: [Bool])] = []
        for overhead in self.overhead.map({ [$0] }) ?? Self.overheads {
            guard records.allSatisfy({ $0.bytes >= overhead }) else { continue }
            let plain = records.map { $0.bytes - overhead }
            let sum = plain.reduce(0, +)
            guard sum >= self.waiting else { continue }
            switch Addends(of: sum - self.waiting, in: plain) {
            case .none: continue
            case .several: return nil
            case .only(let empty):
                // Before TLS 1.3 a record without plaintext has another type. The exception are records that were on
                // their way when counting began.
                let isEarly = self.plain == 0 && !empty.drop { $0 }.contains(true)
                let is13 = overhead == Self.overhead13 && !self.isBefore13
                if is13 || isEarly || empty == none { fitting.append((overhead, empty)) }
            }
        }
        guard fitting.count == 1 else { return nil }
        self.overhead = fitting[0].overhead
        return fitting[0]
    }

    /// Finds the bytes that each of a peer's records adds, and the empty records. Only records that TLS allows to be
    /// empty are tried.
    private func fit(peers records: [TLSRecordScanner.Record]) -> (overhead: UInt64, empty: [Bool])? {
        guard self.isVersionKnown else { return nil }
        let is13 = !self.isBefore13
        let overheads = Self.overheads.filter { ($0 == Self.overhead13) == is13 }
        let emptyBeforeData =
            switch self.maker {
            case .peerServer where is13 && self.plain == 0: 0...records.count - 1
            case .peerClient where is13 && self.plain == 0 && self.isFromStart: 1...1
            default: 0...0
            }
        var fitting: [(overhead: UInt64, data: Range<Int>)] = []
        for overhead in overheads where records.allSatisfy({ $0.bytes >= overhead }) {
            let endsInAlert = is13 && records.last?.bytes == overhead + Self.alertBytes
            var sum = records[emptyBeforeData.lowerBound...].reduce(0) { $0 + $1.bytes - overhead }
            for prefix in emptyBeforeData {
                if sum == self.waiting { fitting.append((overhead, prefix..<records.count)) }
                if endsInAlert, prefix < records.count - 1, sum - Self.alertBytes == self.waiting {
                    fitting.append((overhead, prefix..<records.count - 1))
                }
                sum -= records[prefix].bytes - overhead
            }
        }
        guard fitting.count == 1 else { return nil }
        return (fitting[0].overhead, records.indices.map { !fitting[0].data.contains($0) })
    }

    // MARK: Messages

    /// - Parameter interval: A message on the stream of plaintext, all of which has a place.
    /// - Returns: `nil`: the message has no place.
    package func interval(_ interval: Report.Interval) -> (interval: Report.Interval, isExact: Bool)? {
        guard let from = self.start(interval.from),
            let to = self.segments.last(where: { $0.plain < interval.to && interval.to <= $0.end })?
                .place(interval.to)
        else { return nil }
        let bytes = to.position - from.position - (to.beside - from.beside)
        return (.init(from: from.position, to: to.position, bytes: bytes), from.isExact && to.isExact)
    }

    private func start(_ plain: UInt64) -> Place? {
        if let start = self.start, start.plain == plain { return start.place }
        return self.segments.first { $0.plain <= plain && plain < $0.end }?.place(plain)
    }

    /// Forgets the segments that no message needs any more, if every byte of plaintext has a place.
    ///
    /// - Parameters:
    ///   - start: On the stream of plaintext, where the message begins that has not ended. Its place is kept.
    ///   - position: How far the plaintext was read. Of what lies between, a long message would keep a segment for each
    ///     record. Only the end of what was read may be asked for: there the message may end.
    package mutating func forget(before start: UInt64, readTo position: UInt64) {
        guard self.isSettled else { return }
        self.start = self.start(start).map { (start, $0) }
        // The last segment stays.
        let most = self.segments.count - 1
        var gone = 0
        while gone < most, self.segments[gone].end <= start || self.segments[gone].end < position { gone += 1 }
        guard gone > 0 else { return }
        guard gone == most else { return self.segments.removeFirst(gone) }
        // Nearly always. To move the last segment costs less than to remove a range.
        self.segments[0] = self.segments[most]
        self.segments.removeFew(downTo: 1)
    }

    /// Places that are remembered.
    var placesKept: Int { self.segments.count }
}
