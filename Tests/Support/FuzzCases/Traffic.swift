/// What real peers have sent. `http1.txt` has a request and its response in two lines. A line of `http2.txt` has the
/// header blocks of one direction of a connection. A line of `tls.txt` has the records of one direction: type, bytes,
/// and the bytes of plaintext that OpenSSL read from the record.
enum Traffic {
    struct Exchange: Sendable {
        var request: [UInt8]
        var response: [UInt8]

        var method: String { String(decoding: self.request.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self) }
    }

    static func exchanges() -> [Exchange] {
        var exchanges: [Exchange] = []
        for line in Self.lines(PackageResources.http1_txt) {
            let bytes = Self.unescaped(line.text)
            if line.isRequest {
                exchanges.append(Exchange(request: bytes, response: []))
            } else {
                exchanges[exchanges.count - 1].response = bytes
            }
        }
        return exchanges
    }

    /// One list for each connection and direction.
    static func headerBlocks() -> [[[UInt8]]] {
        Self.lines(PackageResources.http2_txt).map { line in
            line.text.split(separator: UInt8(ascii: " ")).map(Self.bytes)
        }
    }

    /// One list for each connection and direction.
    static func sessions() -> [[TLSFuzz.Record]] {
        Self.lines(PackageResources.tls_txt).map { line in
            line.text.split(separator: UInt8(ascii: " ")).map { record in
                let numbers = record.split(separator: UInt8(ascii: ":")).map {
                    Int(String(decoding: $0, as: UTF8.self)) ?? 0
                }
                return TLSFuzz.Record(type: UInt8(numbers[0]), bytes: numbers[1], plain: numbers[2])
            }
        }
    }

    /// Lines of the form `peer > text` or `peer < text`.
    private static func lines(_ file: [UInt8]) -> [(isRequest: Bool, text: ArraySlice<UInt8>)] {
        file.split(separator: UInt8(ascii: "\n")).map { line in
            let words = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
            return (words[1].first == UInt8(ascii: ">"), words[2])
        }
    }

    private static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var (bytes, rest) = ([UInt8](), text)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let kind = rest.popFirst() else {
                bytes.append(byte)
                continue
            }
            switch kind {
            case UInt8(ascii: "r"): bytes.append(UInt8(ascii: "\r"))
            case UInt8(ascii: "n"): bytes.append(UInt8(ascii: "\n"))
            case UInt8(ascii: "t"): bytes.append(UInt8(ascii: "\t"))
            case UInt8(ascii: "x"):
                bytes += Self.bytes(rest.prefix(2))
                rest = rest.dropFirst(2)
            default: bytes.append(kind)
            }
        }
        return bytes
    }

    private static func bytes(_ hexadecimal: ArraySlice<UInt8>) -> [UInt8] {
        stride(from: hexadecimal.startIndex, to: hexadecimal.endIndex, by: 2).map { index in
            UInt8(String(decoding: hexadecimal[index..<index + 2], as: UTF8.self), radix: 16) ?? 0
        }
    }
}
