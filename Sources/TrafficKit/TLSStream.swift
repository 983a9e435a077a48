package import TrafficReport

/// One direction of a TLS connection: where on the socket's stream the plaintext lies.
///
/// What a record adds (header, nonce, tag, content type, padding) belongs to its first byte of plaintext. So a message that ends within a
/// record ends there, at that byte, and the next one begins there; messages are disjoint, and with what TLS moves beside plaintext
/// (handshake, tickets, alerts) they add up to every byte.
///
/// From TLS 1.3 on all encrypted records look alike. How much plaintext each of several has follows from how much they have together: the
/// ciphers of today add the same to every record (RFC 5116), so some of them have no plaintext where the others have all of it. Where no such
/// choice fits (several records at once of CBC ciphers of TLS 1.2, or with the padding of TLS 1.3) or more than one does, the records count as
/// one, and a message that begins or ends in them is ``Report/Quality/inferred``; also at an end of theirs, where an alert may hide, but not
/// before TLS 1.3, where only small records of CBC that a peer sends may be without plaintext. The same holds for a peer's records beyond the
/// number that is kept of them.
///
/// A peer may pad its records so that a wrong choice fits (RFC 8446 section 5.4). So a peer's record counts as empty only where TLS allows an
/// empty one: before the first data the Finished of a client, which must be there, and a server's handshake and tickets, and behind data an
/// alert. A server can still misplace what comes at once with its first data, and any peer can have places in one read off by about a
/// record's overhead, with a record at its end that looks like an alert. That harms only the peer's own messages, and the sum of all bytes
/// stays right.
package struct TLSStream {
    /// Who makes the records.
    package enum Maker: Sendable {
        case thisProcess
        /// A peer makes records as it likes.
        case peerClient, peerServer
    }

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
        var areEndsExact = true

        func place(_ plain: UInt64) -> Place {
            let end = self.from + self.bytes
            let position = plain == self.plain ? self.from : end - (self.plain + self.plainBytes - plain)
            let isEnd = position == self.from || position == end
            return Place(position: position, beside: self.beside, isExact: self.isExact || isEnd && self.areEndsExact)
        }
    }

    /// What a record adds to its plaintext, header and tag of 16 bytes among it: TLS 1.3 a type, TLS 1.2 with GCM or CCM a nonce, with
    /// ChaCha20-Poly1305 nothing (RFC 8446 section 5.2, RFC 5288 section 3, RFC 7905 section 2).
    private static let overheads: [UInt64] = [overhead13, 29, 21]
    private static let overhead13: UInt64 = 22
    /// In bytes, with any cipher of BoringSSL. The shortest ServerHello of TLS 1.3 has 95, and may come behind ChangeCipherSpec, too.
    private static let longestFinished: UInt64 = 94
    /// Of plaintext (RFC 8446 section 6).
    private static let alertBytes: UInt64 = 2
    /// The longest record of CBC without plaintext: header, a block for the nonce, a digest, the longest padding.
    private static let longestEmpty: UInt64 = 5 + 16 + 64 + 256
    /// A peer's that are told apart, of those whose plaintext is not known: it may send any number of them that have none.
    private static let mostRecords = 1_024

    private var scanner: TLSRecordScanner
    /// Records whose plaintext is not known.
    private var records: [TLSRecordScanner.Record] = []
    private var overhead: UInt64?
    private let maker: Maker
    private var isPeers: Bool { self.maker != .thisProcess }
    /// Nothing had passed before.
    private let isFromStart: Bool
    /// The last record was ChangeCipherSpec.
    private var hasChangedCipher = false
    /// Records of its own that look encrypted have been sent: behind a whole handshake the version shows by then.
    private var hasSentData = false
    /// It is TLS 1.2, or older: this process has sent data with what a cipher of TLS 1.2 adds, or a Finished as a handshake's record behind ChangeCipherSpec (RFC 5246 section 7.4.9). From
    /// TLS 1.3 on only a second hello may be there, which is longer (RFC 8446 section D.4). The peer's records say nothing of it: a peer may
    /// cut a second hello into records of any length.
    package private(set) var isBefore13 = false
    /// For what a peer sends: this process's own records have told the version.
    private var isVersionKnown = false
    /// Bytes of plaintext that have their place.
    private var plain: UInt64 = 0
    /// Further ones.
    private var waiting: UInt64 = 0
    private var segments: [Segment] = []
    /// Of the message that has not ended.
    private var start: (plain: UInt64, place: Place)?
    /// Bytes of records without plaintext, and what had passed before.
    private(set) package var beside: UInt64

    /// - Parameters:
    ///   - position: Bytes that had passed before: a handshake.
    ///   - maker: Who makes the records of this direction.
    package init(position: UInt64 = 0, by maker: Maker = .thisProcess) {
        self.scanner = TLSRecordScanner(position: position)
        self.maker = maker
        self.isFromStart = position == 0
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
        if self.isPeers || self.scanner.isLost, self.records.count > Self.mostRecords { self.merge() }
        guard !self.isPeers, !self.isBefore13 else { return }
        for record in found {
            let isFinished = record.type == TLSRecordScanner.Record.handshake && record.bytes <= Self.longestFinished
            if isFinished, self.hasChangedCipher { self.isBefore13 = true }
            self.hasChangedCipher = record.type == TLSRecordScanner.Record.changeCipherSpec
            if record.type == TLSRecordScanner.Record.applicationData { self.hasSentData = true }
        }
    }

    /// Makes one of all records whose plaintext is not known. Where none of them is of data that is no less exact.
    ///
    /// - Parameter areNone: Their headers say nothing: any of their bytes may be data.
    private mutating func merge(areNone: Bool = false) {
        guard let first = self.records.first else { return }
        let data = TLSRecordScanner.Record.applicationData
        let isData = areNone || self.records.contains { $0.type == data }
        let bytes = self.records.reduce(0) { $0 + $1.bytes }
        let type = isData ? data : first.type
        self.records = [TLSRecordScanner.Record(type: type, from: first.from, bytes: bytes, isMerged: true)]
    }

    /// Takes over the version, which the records that this process sends show: by the Finished, or, as this process does not pad, by what a
    /// record of data adds.
    package mutating func learn(from sent: TLSStream) {
        self.isBefore13 = sent.isBefore13 || sent.overhead != nil && sent.overhead != Self.overhead13
        self.isVersionKnown = self.isBefore13 || sent.overhead != nil || sent.isFromStart && sent.hasSentData
    }

    /// So much of what this process sends has passed, and its plaintext before.
    ///
    /// - Parameter received: The other direction, which learns what ``settle()`` finds out here.
    package mutating func sent(ciphertext bytes: Span<UInt8>, _ received: inout TLSStream) {
        self.passed(ciphertext: bytes)
        self.settle()
        received.learn(from: self)
    }

    /// Plaintext of records that have passed or are about to.
    package mutating func passed(plaintext count: UInt64) {
        self.waiting += count
    }

    /// Gives all plaintext so far its place. To be called where all of it is known that the records so far carry.
    package mutating func settle() {
        guard self.waiting > 0 else { return }
        // A peer whose records have less data than was decrypted sends something else. Of what was joined late a part may be missing.
        if self.isPeers, !self.scanner.mayRestart, self.dataBytes < self.waiting {
            self.scanner.lose()
            self.merge(areNone: true)
        }
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
        (self.records, self.waiting) = ([], 0)
    }

    /// Bytes of records of data whose plaintext is not known.
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

    /// What each record adds, and which of them have no plaintext, where all of it fits one way only.
    private mutating func fit(_ records: [TLSRecordScanner.Record]) -> (overhead: UInt64, empty: [Bool])? {
        guard !records.contains(where: { $0.isMerged }) else { return nil }
        let none = [Bool](repeating: false, count: records.count)
        if records.count == 1 {
            guard !records[0].isRest else { return nil }
            let overhead = records[0].bytes - self.waiting
            let isKnown = !self.isPeers && records[0].minorVersion >= 3 && Self.overheads.contains(overhead)
            if isKnown { self.overhead = overhead }
            return (overhead, none)
        }
        // Before TLS 1.2 each record of CBC is padded as its maker likes, and one may add what another cipher does.
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
                // Before TLS 1.3 what has no plaintext says so: such records were on their way when the first byte was counted.
                let isEarly = self.plain == 0 && !empty.drop { $0 }.contains(true)
                let is13 = overhead == Self.overhead13 && !self.isBefore13
                if is13 || isEarly || empty == none { fitting.append((overhead, empty)) }
            }
        }
        guard fitting.count == 1 else { return nil }
        self.overhead = fitting[0].overhead
        return fitting[0]
    }

    /// What each of a peer's records adds, and which are empty. Only records that TLS allows to be empty are tried.
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
