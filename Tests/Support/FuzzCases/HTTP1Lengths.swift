import TrafficKit

extension HTTP1Scanner.Lengths {
    /// Computes the lengths from what llhttp says of a message, and from its lines, which end with CRLF. Nothing of the
    /// scanner is used.
    ///
    /// - Parameters:
    ///   - bytes: All bytes of the stream.
    ///   - start: Where the message begins.
    init(_ message: LLHTTP.Message, at start: UInt64, in bytes: [UInt8]) {
        self.init()
        let (start, headEnd, end) = (Int(start), Int(message.headEnd), Int(message.end))
        guard start <= headEnd, headEnd <= end, end <= bytes.count else { return }
        // The head. The heads of interim responses come before it.
        var isFirst = true
        for line in Self.lines(bytes[start..<headEnd]) {
            if isFirst {
                // Line ends behind an interim response count as framing.
                let rest = line.drop(while: \.isLineEnd)
                self.framing += UInt64(line.count - rest.count)
                self.line += UInt64(rest.count)
                isFirst = rest.isEmpty
            } else {
                isFirst = line.count == 2
                self.addField(line)
            }
        }
        // Trailers come before the last line end.
        let body = bytes[headEnd..<end]
        var around = UInt64(body.count) - Swift.min(UInt64(body.count), message.body)
        for line in Self.lines(body.dropLast(2)).suffix(message.trailers) where message.trailers > 0 {
            self.addField(line)
            around -= Swift.min(around, UInt64(line.count))
        }
        self.framing += around
        self.body = message.body
    }

    private mutating func addField(_ line: ArraySlice<UInt8>) {
        self.header += UInt64(line.count)
        let name = String(decoding: line.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self).lowercased()
        if name == "cookie" || name == "set-cookie" { self.cookie += UInt64(line.count) }
    }

    /// The lines with their ends.
    private static func lines(_ bytes: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        var (lines, start) = ([ArraySlice<UInt8>](), bytes.startIndex)
        for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") {
            lines.append(bytes[start...index])
            start = index + 1
        }
        return lines
    }
}
