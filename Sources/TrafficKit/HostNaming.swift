enum HostNaming {
    /// The host of a `Host` field or an authority (RFC 3986 section 3.2), without user and port, in lower case.
    static func host(of authority: String) -> String {
        let bytes = authority.utf8.span
        let host = bytes.extracting(self.host(of: bytes))
        guard host.indices.allSatisfy({ Self.isPlain(host[$0]) }) else { return String(host).lowercased() }
        return host.count == bytes.count ? authority : String(host)
    }

    private static func host(of authority: Span<UInt8>) -> Range<Int> {
        var (start, end) = (authority.count, authority.count)
        while start > 0, authority[start - 1] != UInt8(ascii: "@") { start -= 1 }
        if start < end, authority[start] == UInt8(ascii: "[") {
            let bracket = authority.index(of: UInt8(ascii: "]"), in: start..<end)
            return start..<min(bracket + 1, end)
        }
        let colon = authority.index(of: UInt8(ascii: ":"), in: start..<end)
        // A text after the colon that is not a port stays.
        let port = authority.extracting(min(colon + 1, end)..<end)
        if port.indices.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(port[$0]) }) { end = colon }
        return start..<end
    }

    /// The byte is the same in lower case.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte < 0x80 && !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
    }
}
