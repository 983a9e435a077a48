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

    /// Without white space and the line's end at the ends.
    var trimmed: Range<Int> {
        let isSpace = { (byte: UInt8) in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
        }
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
    var hexadecimalDigit: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
