import Glibc
import TrafficReport

// What a message's head says, read from its bytes: strings for all of it would be most of the work.

extension Report.HTTPVersion {
    init?(http1 text: Span<UInt8>) {
        guard text.count == 8, text.extracting(0..<7).isEqual("HTTP/1.") else { return nil }
        switch text[7] {
        case UInt8(ascii: "1"): self = .http1_1
        case UInt8(ascii: "0"): self = .http1_0
        default: return nil
        }
    }
}

extension Span<UInt8> {
    /// - Returns: The range's end, where there is none.
    func index(of byte: UInt8, in range: Range<Int>) -> Int {
        self.withUnsafeBytes { bytes in
            guard !range.isEmpty, let start = bytes.baseAddress,
                let found = memchr(start + range.lowerBound, Int32(byte), range.count)
            else { return range.upperBound }
            return start.distance(to: found)
        }
    }

    /// - Returns: The range's end, where there is no other.
    func index(notOf byte: UInt8, in range: Range<Int>) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, self[index] == byte { index += 1 }
        return index
    }

    var last: UInt8? { self.isEmpty ? nil : self[self.count - 1] }

    /// The first control character but HTAB (RFC 9110 section 5.5).
    ///
    /// - Returns: The range's end, where there is none.
    @inline(__always)
    func index(ofControlIn range: Range<Int>) -> Int {
        self.withUnsafeBytes { bytes in
            var index = range.lowerBound
            let (ones, high) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
            let lastWord = range.upperBound - 8
            while index <= lastWord {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                // Eight bytes at a time. What is less than a space sets its highest bit when that is taken away, DEL when 1 is added.
                guard ((word &- ones &* 0x20) | (word &+ ones) | word) & high != 0 else {
                    index &+= 8
                    continue
                }
                // Only of those bytes, or of others above them, and not of what is beyond ASCII.
                let deleted = word ^ (ones &* 0x7f)
                let found = ((word &- ones &* 0x20) & ~word | (deleted &- ones) & ~deleted) & high
                guard found != 0 else {
                    index &+= 8
                    continue
                }
                index &+= found.trailingZeroBitCount / 8
                guard bytes[index] == UInt8(ascii: "\t") else { return index }
                index &+= 1
            }
            while index < range.upperBound {
                if bytes[index].isControl { return index }
                index += 1
            }
            return index
        }
    }

    /// A name of a field, for example (RFC 9110 section 5.6.2), or nothing.
    var isToken: Bool { self.tokenEnd == self.count }

    /// Where the token ends that it begins with: at the first other byte, or its own end.
    @inline(__always)
    var tokenEnd: Int {
        self.withUnsafeBytes { bytes in
            var index = 0
            // Nearly all are letters, digits and hyphens: eight bytes at a time.
            let (ones, high) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
            let lastWord = bytes.count - 8
            while index <= lastWord {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                // In each byte the highest bit, by sums that stay below the next byte.
                let (text, lower) = (word & ~high, word & ~high | ones &* 0x20)
                let letters = (lower &+ ones &* (0x80 - 0x61)) & ~(lower &+ ones &* (0x80 - 0x7b))
                let digits = (text &+ ones &* (0x80 - 0x30)) & ~(text &+ ones &* (0x80 - 0x3a))
                let others = (~(letters | digits | ~((text ^ ones &* 0x2d) &+ ones &* 0x7f)) | word) & high
                guard others != 0 else {
                    index &+= 8
                    continue
                }
                index &+= others.trailingZeroBitCount / 8
                guard bytes[index].isTokenCharacter else { return index }
                index &+= 1
            }
            while index < bytes.count, bytes[index].isTokenCharacter { index &+= 1 }
            return index
        }
    }

    func isEqual(_ text: StaticString) -> Bool {
        self.count == text.utf8CodeUnitCount
            && self.withUnsafeBytes { bytes in
                bytes.isEmpty || memcmp(bytes.baseAddress!, text.utf8Start, bytes.count) == 0
            }
    }

    func isEqual(_ text: String) -> Bool {
        guard self.count == text.utf8.count else { return false }
        return text.utf8.withContiguousStorageIfAvailable { text in
            self.withUnsafeBytes { bytes in
                bytes.isEmpty || memcmp(bytes.baseAddress!, text.baseAddress!, bytes.count) == 0
            }
        } ?? false
    }

    /// In any case.
    ///
    /// - Parameter text: In lower case: letters, and what comes before them in ASCII.
    func isEqual(ignoringCase text: StaticString) -> Bool {
        let count = self.count
        guard count == text.utf8CodeUnitCount else { return false }
        let wanted = text.utf8Start
        return self.withUnsafeBufferPointer { bytes in
            // All of them, without a branch.
            var difference: UInt8 = 0
            for index in 0..<count {
                // The cases of a letter are one bit apart. Other bytes are, too: those that come before letters lack this one.
                let caseBit = (wanted[index] & 0x40) >> 1
                difference |= (bytes[index] ^ wanted[index]) & ~caseBit
            }
            return difference == 0
        }
    }

    /// In any case, as ``isEqual(ignoringCase:)``.
    func begins(with text: StaticString) -> Bool {
        self.count >= text.utf8CodeUnitCount
            && self.extracting(first: text.utf8CodeUnitCount).isEqual(ignoringCase: text)
    }

    func ends(with text: StaticString) -> Bool {
        self.count >= text.utf8CodeUnitCount
            && self.extracting(last: text.utf8CodeUnitCount).isEqual(ignoringCase: text)
    }

    /// Without white space at the ends.
    var trimmed: Range<Int> {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var (start, end) = (0, self.count)
        while start < end, isSpace(self[start]) { start += 1 }
        while start < end, isSpace(self[end - 1]) { end -= 1 }
        return start..<end
    }
}

extension [UInt8] {
    /// - Parameter limit: Of the array; what goes beyond is left out.
    mutating func append(contentsOf bytes: Span<UInt8>, to limit: Int) {
        let kept = bytes.extracting(0..<Swift.min(bytes.count, Swift.max(0, limit - self.count)))
        kept.withUnsafeBufferPointer { self.append(contentsOf: $0) }
    }
}

extension String {
    /// What is no UTF-8 is replaced.
    init(_ bytes: Span<UInt8>) {
        self = bytes.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
    }
}

extension FixedWidthInteger {
    /// - Returns: `nil` for anything but digits, and for what is too large.
    init?(decimal digits: Span<UInt8>) {
        guard !digits.isEmpty else { return nil }
        self = 0
        for index in 0..<digits.count {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digits[index]) else { return nil }
            let (product, isOver) = self.multipliedReportingOverflow(by: 10)
            let (sum, isFar) = product.addingReportingOverflow(Self(digits[index] - UInt8(ascii: "0")))
            if isOver || isFar { return nil }
            self = sum
        }
    }
}

extension UInt8 {
    /// CR or LF.
    var isLineEnd: Bool { self == UInt8(ascii: "\r") || self == UInt8(ascii: "\n") }

    /// No text, nor HTAB.
    var isControl: Bool { self < 0x20 && self != UInt8(ascii: "\t") || self == 0x7f }

    /// RFC 9110 section 5.6.2, as a set of bits.
    var isTokenCharacter: Bool {
        let set: UInt64 = self < 0x40 ? 0x03ff_6cfa_0000_0000 : 0x57ff_ffff_c7ff_fffe
        return self < 0x80 && set &>> UInt64(self) & 1 != 0
    }

    var hexadecimalDigit: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
