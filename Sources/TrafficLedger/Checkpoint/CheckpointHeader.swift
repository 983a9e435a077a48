/// The bytes of a checkpoint: a header, and then the values of the ledger, or of its sums, as ``CheckpointEncoder`` writes
/// them.
///
/// The header has, little-endian: the magic (8 bytes), the version (4 bytes), the number of bytes after the header
/// (8 bytes), and their checksum (8 bytes). It finds files that are cut off or damaged. It does not find forgeries: only
/// the daemon may be able to write the file.
enum CheckpointHeader {
    /// What the bytes after the header are.
    struct Form {
        fileprivate let magic: [UInt8]
        fileprivate let version: UInt32

        static let ledger = Form(magic: Array("trafficd".utf8), version: CheckpointHeader.version)
        static let sums = Form(magic: Array("traffsum".utf8), version: LedgerSums.version)
    }

    /// The version of the ledger's format.
    ///
    /// Raise it whenever bytes of before would be read as something else: a stored property of any type of the ledger
    /// was added, removed, moved or has another type; a number means something else. A daemon that finds another
    /// version goes on with ``LedgerSums`` alone. `CheckpointShapeTests` fails if the version should have been raised.
    ///
    /// The coder itself must not change: old sums are written with it, too.
    static let version: UInt32 = 17

    static let headerLength = 28

    /// Fills in the header.
    ///
    /// - Parameter bytes: Begin with ``headerLength`` bytes that have no meaning.
    static func seal(_ bytes: inout [UInt8], as form: Form) {
        var header = form.magic
        self.append(UInt64(form.version), 4, to: &header)
        self.append(UInt64(bytes.count - self.headerLength), 8, to: &header)
        self.append(self.checksum(of: bytes), 8, to: &header)
        bytes.replaceSubrange(..<self.headerLength, with: header)
    }

    /// - Throws: ``CheckpointError``, unless the bytes after the header are as they were written.
    static func check(_ bytes: [UInt8], as form: Form) throws(CheckpointError) {
        guard bytes.starts(with: form.magic) else { throw .notACheckpoint }
        guard bytes.count >= self.headerLength else { throw .cutOff(bytes: bytes.count, of: UInt64(self.headerLength)) }
        let version = UInt32(truncatingIfNeeded: self.number(4, at: 8, of: bytes))
        guard version == form.version else { throw .otherVersion(version, known: form.version) }
        let length = self.number(8, at: 12, of: bytes)
        let (whole, isTooMuch) = length.addingReportingOverflow(UInt64(self.headerLength))
        guard !isTooMuch, whole <= UInt64(bytes.count) else {
            throw .cutOff(bytes: bytes.count, of: isTooMuch ? .max : whole)
        }
        guard whole == UInt64(bytes.count), self.number(8, at: 20, of: bytes) == self.checksum(of: bytes) else {
            throw .damaged
        }
    }

    /// The checksum of the bytes after the header. A step for each 8 bytes, which can be undone if the bytes are known:
    /// so a change within 8 bytes always changes the checksum, and any other change with a chance of 1 - 2^-64.
    static func checksum(of bytes: [UInt8]) -> UInt64 {
        bytes.withUnsafeBytes { bytes in
            var sum = UInt64(bytes.count)
            var offset = Self.headerLength
            func add(_ word: UInt64) {
                sum = (sum ^ word) &* 0xff51_afd7_ed55_8ccd
                sum ^= sum >> 32
            }
            while offset + 8 <= bytes.count {
                add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
                offset += 8
            }
            if offset < bytes.count { add(bytes[offset...].reversed().reduce(0) { $0 << 8 | UInt64($1) }) }
            return sum
        }
    }

    private static func append(_ number: UInt64, _ count: Int, to bytes: inout [UInt8]) {
        for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * index))) }
    }

    private static func number(_ count: Int, at offset: Int, of bytes: [UInt8]) -> UInt64 {
        bytes[offset..<offset + count].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Why a ledger can't be restored.
public enum CheckpointError: Error, Hashable, Sendable {
    /// The bytes do not begin as a checkpoint does.
    case notACheckpoint
    /// Another version of the program wrote the checkpoint.
    case otherVersion(UInt32, known: UInt32)
    /// There are fewer bytes than the checkpoint had.
    case cutOff(bytes: Int, of: UInt64)
    /// The bytes are not those that were written.
    case damaged
}

extension CheckpointError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notACheckpoint: "not a checkpoint of trafficd"
        case .otherVersion(let version, let known):
            "a checkpoint of version \(version), and this program knows version \(known) only"
        case .cutOff(let bytes, let whole): "a checkpoint that is cut off after \(bytes) of \(whole) bytes"
        case .damaged: "a damaged checkpoint"
        }
    }
}
