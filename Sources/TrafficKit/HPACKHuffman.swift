/// Huffman's code of HPACK (RFC 7541 appendix B).
///
/// The code is canonical: shorter codes come before longer ones, and codes of one length follow one another in the order
/// of their symbols. So the lengths alone make the code.
struct HPACKHuffman: Sendable {
    static let shared = HPACKHuffman()

    /// Bits of each symbol's code. The end-of-string symbol has 30 bits, all of them ones, and must not occur.
    private static let lengths: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28,
        28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6,
        6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
        7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5,
        5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23,
        24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23,
        21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21,
        21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27,
        26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    ]
    private static let longest = 30

    /// For each beginning of eight bits: the symbol, and in the upper byte the length of its code. 0: the code is longer.
    private var short = [UInt16](repeating: 0, count: 256)
    /// For each length, the first code that is longer, in the upper bits of 32.
    private var ends = [UInt32](repeating: 0, count: Self.longest + 1)
    /// For each length, where its symbols begin in `symbols`, less its first code.
    private var offsets = [Int](repeating: 0, count: Self.longest + 1)
    /// All symbols in the order of their codes.
    private var symbols: [UInt8] = []

    private init() {
        var code = 0
        for length in 1...Self.longest {
            code <<= 1
            self.offsets[length] = self.symbols.count - code
            for symbol in 0..<256 where Self.lengths[symbol] == length {
                if length <= 8 {
                    let first = code << (8 - length)
                    for index in first..<first + 1 << (8 - length) {
                        self.short[index] = UInt16(length) << 8 | UInt16(symbol)
                    }
                }
                self.symbols.append(UInt8(symbol))
                code += 1
            }
            self.ends[length] = UInt32(truncatingIfNeeded: code << (32 - length))
        }
    }

    /// - Parameter emit: Gets each decoded byte, also of a string that turns out to be wrong.
    /// - Returns: The number of decoded bytes. `nil`: the string has a code that does not exist, or ends in anything but
    ///   less than eight bits of ones (RFC 7541 section 5.2).
    @inline(__always)
    func decode(_ bytes: Span<UInt8>, _ emit: (UInt8) -> Void) -> Int? {
        bytes.withUnsafeBufferPointer { bytes in
            self.short.withUnsafeBufferPointer { short in
                // The next bits, from the highest on; the rest is 0.
                var (window, bits, index, count) = (UInt64(0), 0, 0, 0)
                while true {
                    while bits <= 56, index < bytes.count {
                        window |= UInt64(bytes[index]) &<< UInt64(56 &- bits)
                        bits &+= 8
                        index &+= 1
                    }
                    let known = short[Int(window &>> 56)]
                    var (length, symbol) = (Int(known &>> 8), UInt8(truncatingIfNeeded: known))
                    if length == 0 {
                        let code = self.long(UInt32(truncatingIfNeeded: window &>> 32))
                        (length, symbol) = (code.length, code.symbol)
                    }
                    guard length <= bits else {
                        return bits < 8 && ~window &>> UInt64(64 &- bits) == 0 || bits == 0 ? count : nil
                    }
                    emit(symbol)
                    count &+= 1
                    window &<<= UInt64(length)
                    bits &-= length
                }
            }
        }
    }

    /// - Returns: A length beyond all bits if there is no such code.
    private func long(_ bits: UInt32) -> (length: Int, symbol: UInt8) {
        for length in 9...Self.longest where bits < self.ends[length] {
            return (length, self.symbols[self.offsets[length] + Int(bits >> (32 - UInt32(length)))])
        }
        return (.max, 0)
    }
}
