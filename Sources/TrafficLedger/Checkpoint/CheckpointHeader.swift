/// What a checkpoint begins with, little-endian: the magic (8 bytes), the version (4 bytes), the number of bytes after the
/// header (8 bytes), and their checksum (8 bytes).
///
/// The header finds files that are cut off or damaged. It does not find forgeries: only the daemon may be able to write the
/// file.
enum CheckpointHeader {
    private static let magic = Array("trafficd".utf8)

    /// The version of the ledger's fields.
    ///
    /// Most new fields need no other version: an earlier program passes over them, and a later one has `nil`, 0 or empty in
    /// their place. Raise the version if
    ///
    /// - a field or a word is removed or gets another name or type, or a field is new and must not be missing, as
    ///   `CheckpointFieldsTests` notices;
    /// - a number means something else, or what is a key of a dictionary gets a field, which nobody notices.
    ///
    /// A daemon that finds another version goes on with ``LedgerSums``, of which no field may ever change.
    static let version: UInt32 = 1

    static let length = 28

    /// Fills in the header.
    ///
    /// - Parameter bytes: Begin with ``length`` bytes that have no meaning.
    static func seal(_ bytes: inout [UInt8]) {
        var header = self.magic
        self.append(UInt64(self.version), 4, to: &header)
        self.append(UInt64(bytes.count - self.length), 8, to: &header)
        self.append(self.checksum(of: bytes), 8, to: &header)
        bytes.replaceSubrange(..<self.length, with: header)
    }

    /// - Returns: The version.
    /// - Throws: ``CheckpointError``, unless the bytes after the header are as they were written.
    static func check(_ bytes: [UInt8]) throws(CheckpointError) -> UInt32 {
        guard bytes.starts(with: self.magic) else { throw .notACheckpoint }
        guard bytes.count >= self.length else { throw .cutOff(bytes: bytes.count, of: UInt64(self.length)) }
        let count = self.number(8, at: 12, of: bytes)
        let (whole, isTooMuch) = count.addingReportingOverflow(UInt64(self.length))
        guard !isTooMuch, whole <= UInt64(bytes.count) else {
            throw .cutOff(bytes: bytes.count, of: isTooMuch ? .max : whole)
        }
        guard whole == UInt64(bytes.count), self.number(8, at: 20, of: bytes) == self.checksum(of: bytes) else {
            throw .damaged
        }
        return UInt32(truncatingIfNeeded: self.number(4, at: 8, of: bytes))
    }

    /// The checksum of the bytes after the header. A step for each 8 bytes, which can be undone if the bytes are known:
    /// so a change within 8 bytes always changes the checksum, and any other change with a chance of 1 - 2^-64.
    static func checksum(of bytes: [UInt8]) -> UInt64 {
        bytes.withUnsafeBytes { bytes in
            var sum = UInt64(bytes.count)
            var offset = Self.length
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
    /// Another version of the program wrote the checkpoint, with fields that mean something else. The sums can be read.
    case otherVersion(UInt32, known: UInt32)
    /// The checkpoint has values that this program does not know. The sums can be read.
    case otherForm
    /// What the checkpoint has does not add up to its sums. The sums can be read.
    case otherSums
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
        case .otherForm: "a checkpoint with values that this program does not know"
        case .otherSums: "a checkpoint that does not add up to its sums"
        case .cutOff(let bytes, let whole): "a checkpoint that is cut off after \(bytes) of \(whole) bytes"
        case .damaged: "a damaged checkpoint"
        }
    }
}
