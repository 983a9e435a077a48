/// Finds the records in one direction of a TLS connection, in pieces of any size (RFC 8446 section 5.1, RFC 5246
/// section 6.2.1).
///
/// The scanner reads only the header of a record, which is never encrypted.
struct TLSRecordScanner {
    struct Record: Hashable {
        /// From TLS 1.3 on every encrypted record has this type.
        static let applicationData: UInt8 = 23
        static let changeCipherSpec: UInt8 = 20
        static let handshake: UInt8 = 22

        let type: UInt8
        /// Where the record begins on the socket's stream.
        let from: UInt64
        /// Bytes of the record with its header.
        let bytes: UInt64
        /// The second byte of the record's version: 3 from TLS 1.2 on (RFC 8446 section 5.1).
        var minorVersion: UInt8 = 3
        /// The bytes may be the end of a record that began before the first byte that the scanner saw.
        var isRest = false
        /// Several records, or bytes that are not records. It is unknown which of the bytes carry plaintext.
        var isMerged = false
    }

    private static let headerBytes = 5
    /// TLS 1.2 allows more than TLS 1.3 does (RFC 5246 section 6.2.3).
    private static let longestFragment = 16_384 + 2_048

    /// Bytes of the stream so far.
    private(set) var position: UInt64
    /// A record does not begin where one must. All bytes from there on count as one unknown record. To look for records
    /// again would let a peer choose where records seem to be.
    private(set) var isLost = false
    /// The scanner has found no record yet, and bytes had passed before. So its first bytes may be the rest of a
    /// record, and the next piece may begin with a record.
    private(set) var mayRestart: Bool
    /// The bytes of the current record's header so far.
    private var header: InlineArray<5, UInt8> = [0, 0, 0, 0, 0]
    private var headerCount = 0
    private var from: UInt64
    /// Bytes of the current record that have not come yet.
    private var left = 0

    /// - Parameter position: Bytes that had passed before. A record begins there.
    init(position: UInt64) {
        self.position = position
        self.from = position
        self.mayRestart = position > 0
    }

    /// Stops looking for records, because the records so far were none.
    mutating func lose() {
        (self.isLost, self.mayRestart) = (true, false)
    }

    /// - Parameter found: Gets the complete records.
    mutating func scan(_ bytes: Span<UInt8>, _ found: inout [Record]) {
        let end = self.position + UInt64(bytes.count)
        if self.isLost, self.mayRestart { (self.isLost, self.headerCount, self.left) = (false, 0, 0) }
        var index = 0
        while index < bytes.count, !self.isLost {
            if self.left > 0 {
                let count = min(self.left, bytes.count - index)
                self.left -= count
                self.position += UInt64(count)
                index += count
            } else {
                self.header[self.headerCount] = bytes[index]
                self.headerCount += 1
                self.position += 1
                index += 1
                guard self.headerCount == Self.headerBytes else { continue }
                self.left = Int(self.header[3]) << 8 | Int(self.header[4])
                self.isLost =
                    !(20...24).contains(self.header[0]) || self.header[1] != 3 || self.left > Self.longestFragment
            }
            if self.left == 0, self.headerCount == Self.headerBytes, !self.isLost {
                let bytes = self.position - self.from
                found.append(
                    Record(type: self.header[0], from: self.from, bytes: bytes, minorVersion: self.header[2])
                )
                self.headerCount = 0
                self.from = self.position
                self.mayRestart = false
            }
        }
        guard self.isLost else { return }
        self.position = end
        guard end > self.from else { return }
        var record = Record(type: Record.applicationData, from: self.from, bytes: end - self.from)
        (record.isRest, record.isMerged) = (self.mayRestart, !self.mayRestart)
        found.append(record)
        self.from = end
    }
}
