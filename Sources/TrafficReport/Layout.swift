/// The numbers of the layout; see <doc:Format>.
enum Layout {
    static let magic: [UInt8] = [0x54, 0x52, 0x46, 0x43]  // "TRFC"
    static let headerLength = 24
    static let recordHeadLength = 4
    /// Every record has at least this many bytes.
    static let shortestRecord = 8
    static let nameLength = 10
    static let exchangeLength = 32
    static let shortMessageLength = 40
    static let longMessageLength = 104
    static let outcomeLength = 24
    static let setupLength = 24
    static let chainLength = 16
    static let connectionLength = 80
    /// Bytes of one string, at most. A longer string is cut between two characters.
    static let longestString = 1_024
    /// Of a name's record as this module writes it.
    static let longestName = (nameLength + 3 * longestString + 7) & ~7

    static let none64 = UInt64.max
    static let none32 = UInt32.max

    enum RecordType: UInt8 {
        case name = 1
        case exchange = 2
        case connection = 3
    }

    /// What an exchange record has after its fixed part, in this order.
    struct Parts: OptionSet {
        let rawValue: UInt16

        static let request = Parts(rawValue: 1 << 0)
        static let response = Parts(rawValue: 1 << 1)
        static let outcome = Parts(rawValue: 1 << 2)
        static let setup = Parts(rawValue: 1 << 3)
        static let chain = Parts(rawValue: 1 << 4)
        /// No part, but a flag of the outcome: the exchange is the first on its connection.
        static let first = Parts(rawValue: 1 << 5)
        /// The request has the long form.
        static let longRequest = Parts(rawValue: 1 << 6)
        /// The response has the long form.
        static let longResponse = Parts(rawValue: 1 << 7)

        static let known = Parts(rawValue: 0xff)

        /// Each of these belongs to a part that must be there.
        var isConsistent: Bool {
            (self.contains(.request) || !self.contains(.longRequest))
                && (self.contains(.response) || !self.contains(.longResponse))
                && (self.contains(.outcome) || self.isDisjoint(with: [.setup, .first]))
        }

        /// The exchange record's length up to the end of the last known part.
        var length: Int {
            var length = Layout.exchangeLength
            if self.contains(.request) { length += Self.messageLength(isLong: self.contains(.longRequest)) }
            if self.contains(.response) { length += Self.messageLength(isLong: self.contains(.longResponse)) }
            if self.contains(.outcome) { length += Layout.outcomeLength }
            if self.contains(.setup) { length += Layout.setupLength }
            if self.contains(.chain) { length += Layout.chainLength }
            return length
        }

        private static func messageLength(isLong: Bool) -> Int {
            isLong ? Layout.longMessageLength : Layout.shortMessageLength
        }
    }

    static let incomplete: UInt8 = 1 << 0
    /// In the short form: the decoded body is as long as the body. Otherwise its length is unknown.
    static let isPlainBody: UInt8 = 1 << 1
    /// In the short form: `Content-Length` is the body's length. Otherwise there is none.
    static let isDeclaredBody: UInt8 = 1 << 2
    /// In the short form: the message has as many bytes of its interval as its lengths say. Otherwise it has all.
    static let interleaved: UInt8 = 1 << 3

    static let own: UInt8 = 1

    /// - Parameter text: UTF-8.
    /// - Returns: The number of its bytes that fit into a string.
    private static func room(for text: UnsafeBufferPointer<UInt8>) -> Int {
        guard text.count > self.longestString else { return text.count }
        var count = self.longestString
        while text[count] & 0xc0 == 0x80 { count -= 1 }
        return count
    }

    /// Cuts a text that is too long between two characters (RFC 3629 section 3).
    static func cut(_ text: consuming String) -> String {
        guard text.utf8.count > self.longestString else { return text }
        return text.withUTF8 { String(decoding: $0[..<self.room(for: $0)], as: UTF8.self) }
    }

    /// Makes the record of a name.
    static func nameRecord(_ texts: [String]) -> [UInt8] {
        let texts = texts.map { Array(self.cut($0).utf8) }
        let length = (self.nameLength + texts.reduce(0) { $0 + $1.count } + 7) & ~7
        var bytes: [UInt8] = [RecordType.name.rawValue, 0]
        bytes.reserveCapacity(length)
        for number in [length] + texts.map(\.count) {
            bytes.append(UInt8(truncatingIfNeeded: number))
            bytes.append(UInt8(truncatingIfNeeded: number >> 8))
        }
        for text in texts { bytes += text }
        bytes += repeatElement(0, count: length - bytes.count)
        return bytes
    }

    /// A number that tells most records of names apart, in each of its bits. A sender can choose names with the same
    /// number: they cost time, and nothing else.
    static func hash(ofName record: UnsafeRawBufferPointer) -> Int {
        var hash: UInt64 = 0
        var offset = 0
        while offset + 8 <= record.count {
            let word = record.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            hash = (hash ^ word) &* 0xff51_afd7_ed55_8ccd
            hash ^= hash >> 33
            offset += 8
        }
        hash = hash &* 0xc4ce_b9fe_1a85_ec53
        return Int(truncatingIfNeeded: hash >> 32)
    }
}
