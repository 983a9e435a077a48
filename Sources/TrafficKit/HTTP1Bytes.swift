import Glibc
import TrafficReport

// Reads a message's head from its bytes: to make strings of everything would be most of the work.

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
    /// - Returns: The range's end if the byte is not there.
    func index(of byte: UInt8, in range: Range<Int>) -> Int {
        self.withUnsafeBytes { bytes in
            guard !range.isEmpty, let start = bytes.baseAddress,
                let found = memchr(start + range.lowerBound, Int32(byte), range.count)
            else { return range.upperBound }
            return start.distance(to: found)
        }
    }

    /// - Returns: The range's end if there is no other byte.
    func index(notOf byte: UInt8, in range: Range<Int>) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, self[index] == byte { index += 1 }
        return index
    }

    var last: UInt8? { self.isEmpty ? nil : self[self.count - 1] }

    /// The first control character except HTAB (RFC 9110 section 5.5).
    ///
    /// - Returns: The range's end if there is none.
    @inline(__always)
    func index(ofControlIn range: Range<Int>) -> Int {
        self.withUnsafeBytes { bytes in
            var index = range.lowerBound
            let (ones, high) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
            let lastWord = range.upperBound - 8
            while index <= lastWord {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                // Eight bytes at a time. A byte below space has its highest bit set after 0x20 is subtracted, DEL after
                // 1 is added.
                guard ((word &- ones &* 0x20) | (word &+ ones) | word) & high != 0 else {
                    index &+= 8
                    continue
                }
                // Marks control characters, never bytes beyond ASCII. A borrow may mark higher bytes, too: the lowest
                // mark is right.
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

    /// Whether all bytes are a token, such as a field's name (RFC 9110 section 5.6.2), or there are no bytes.
    var isToken: Bool { self.tokenEnd() == self.count }

    /// The end of the token at `start`: the first other byte, or the end of the bytes.
    @inline(__always)
    func tokenEnd(from start: Int = 0) -> Int {
        self.withUnsafeBytes { bytes in
            var index = start
            // Nearly all bytes are letters, digits and hyphens: eight bytes at a time.
            let (ones, high) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
            let lastWord = bytes.count - 8
            while index <= lastWord {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                // Each result is in the highest bit of its byte. The sums never carry into the next byte.
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

    /// - Parameters:
    ///   - start: Where the line begins.
    ///   - first: Where to look from. Between the two are no control characters.
    /// - Returns: Where the CR LF is that ends the line. `nil`: the line has no such end, is longer than what is kept,
    ///   or another control character comes first.
    @inline(__always)
    func lineEnd(_ start: Int, from first: Int) -> Int? {
        let end = self.index(ofControlIn: first..<self.count)
        guard end &+ 1 < self.count, self[end] == UInt8(ascii: "\r"), self[end &+ 1] == UInt8(ascii: "\n"),
            end &- start <= HTTP1Line.longest
        else { return nil }
        return end
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

    /// Compares without regard to case.
    ///
    /// - Parameter text: Lower-case letters, and characters before the letters in ASCII.
    func isEqual(ignoringCase text: StaticString) -> Bool {
        let count = self.count
        guard count == text.utf8CodeUnitCount else { return false }
        let wanted = text.utf8Start
        return self.withUnsafeBufferPointer { bytes in
            // The loop compares all bytes, without a branch.
            var difference: UInt8 = 0
            for index in 0..<count {
                // The two cases of a letter differ in bit 0x20. Characters before the letters lack bit 0x40: they get
                // no case bit.
                let caseBit = (wanted[index] & 0x40) >> 1
                difference |= (bytes[index] ^ wanted[index]) & ~caseBit
            }
            return difference == 0
        }
    }

    /// Compares a token with the name of a field, in any case.
    ///
    /// - Parameter name: Lower-case letters and hyphens, as many as the token has bytes, and at least four.
    @inline(__always)
    func isName(_ name: StaticString) -> Bool {
        self.withUnsafeBytes { bytes in
            // Of two different token characters that differ only in bit 0x20, both are letters or neither is.
            let (name, count) = (UnsafeRawPointer(name.utf8Start), bytes.count)
            func differ<Word: FixedWidthInteger & BitwiseCopyable>(_ mask: Word, at offset: Int) -> Bool {
                (bytes.loadUnaligned(fromByteOffset: offset, as: Word.self) | mask)
                    != name.loadUnaligned(fromByteOffset: offset, as: Word.self)
            }
            guard count >= 8 else {
                return !differ(UInt32(0x2020_2020), at: 0) && !differ(UInt32(0x2020_2020), at: count &- 4)
            }
            let mask = UInt64(0x2020_2020_2020_2020)
            return !differ(mask, at: 0) && !differ(mask, at: count &- 8) && (count <= 16 || !differ(mask, at: 8))
        }
    }

    /// Without regard to case, as ``isEqual(ignoringCase:)``.
    func begins(with text: StaticString) -> Bool {
        self.count >= text.utf8CodeUnitCount
            && self.extracting(first: text.utf8CodeUnitCount).isEqual(ignoringCase: text)
    }

    func ends(with text: StaticString) -> Bool {
        self.count >= text.utf8CodeUnitCount
            && self.extracting(last: text.utf8CodeUnitCount).isEqual(ignoringCase: text)
    }

    /// The range without white space at the ends.
    var trimmed: Range<Int> {
        let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var (start, end) = (0, self.count)
        while start < end, isSpace(self[start]) { start += 1 }
        while start < end, isSpace(self[end - 1]) { end -= 1 }
        return start..<end
    }
}

extension [UInt8] {
    /// - Parameter limit: The array's longest count; bytes beyond it are left out.
    mutating func append(contentsOf bytes: Span<UInt8>, to limit: Int) {
        let kept = bytes.extracting(0..<Swift.min(bytes.count, Swift.max(0, limit - self.count)))
        kept.withUnsafeBufferPointer { self.append(contentsOf: $0) }
    }
}

extension String {
    /// Replaces bytes that are not UTF-8.
    init(_ bytes: Span<UInt8>) {
        self = bytes.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
    }
}

extension FixedWidthInteger {
    /// - Returns: `nil` for a character that is not a digit, and for a number that is too large.
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

    /// A control character except HTAB.
    var isControl: Bool { self < 0x20 && self != UInt8(ascii: "\t") || self == 0x7f }

    /// A character of a token (RFC 9110 section 5.6.2), looked up in a set of bits.
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
