import TrafficReport

// What a message's head says, read from its bytes: strings for all of it would be most of the work.

extension Report.HTTPVersion {
    init?(http1 text: ArraySlice<UInt8>) {
        guard text.count == 8, text.starts(with: "HTTP/1.".utf8) else { return nil }
        switch text.last {
        case UInt8(ascii: "1"): self = .http1_1
        case UInt8(ascii: "0"): self = .http1_0
        default: return nil
        }
    }
}

extension Span<UInt8> {
    /// - Returns: The end, where there is none.
    func firstLineFeed(from start: Int) -> Int {
        var index = start
        while index < self.count, self[index] != UInt8(ascii: "\n") { index += 1 }
        return index
    }
}

extension FixedWidthInteger {
    /// - Returns: `nil` for anything but digits, and for what is too large.
    init?(decimal digits: ArraySlice<UInt8>) {
        guard !digits.isEmpty else { return nil }
        self = 0
        for byte in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let (product, isOver) = self.multipliedReportingOverflow(by: 10)
            let (sum, isFar) = product.addingReportingOverflow(Self(byte - UInt8(ascii: "0")))
            if isOver || isFar { return nil }
            self = sum
        }
    }
}

extension [UInt8] {
    /// Without white space and the line's end at the ends.
    var trimmed: ArraySlice<UInt8> {
        let isSpace = { (byte: UInt8) in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
        }
        var slice = self[...].drop(while: isSpace)
        while let last = slice.last, isSpace(last) { slice.removeLast() }
        return slice
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
