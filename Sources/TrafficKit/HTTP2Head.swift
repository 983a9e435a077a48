package import TrafficReport

/// What the fields of one header block of HTTP/2 say.
package struct HTTP2Head {
    /// Bytes of the pseudo-fields, which are what a line is for HTTP/1.x.
    package private(set) var lineBytes: UInt64 = 0
    package private(set) var cookieBytes: UInt64 = 0
    package private(set) var status: UInt16 = 0
    package private(set) var contentLength: UInt64?
    package private(set) var contentClass = Report.ContentClass.unknown
    package private(set) var isEncoded = false
    /// There is at least one of the following texts. Only requests have texts.
    private var hasTexts = false
    private var method = ""
    private var target = ""
    private var authority = ""
    private var host = ""

    package init() {}

    /// Reads a block into an empty head.
    ///
    /// - Returns: `false`: the block can't be read, and no later block of this direction can.
    package mutating func read(_ block: Span<UInt8>, _ reader: inout HPACKReader) -> Bool {
        reader.read(block) { field in
            switch field.name {
            case .other, .pseudo: break
            case .method: self.method = field.text
            case .path: self.target = field.text
            case .authority: self.authority = field.text
            case .host: if self.host.isEmpty { self.host = field.text }
            case .status: self.status = UInt16(truncatingIfNeeded: field.number)
            case .contentLength: self.contentLength = field.number == HPACKReader.noLength ? nil : field.number
            case .contentType:
                self.contentClass = .init(rawValue: UInt8(truncatingIfNeeded: field.number)) ?? .unknown
            case .contentEncoding: self.isEncoded = field.number != 0
            case .cookie: self.cookieBytes += field.bytes
            }
            if field.name.isText { self.hasTexts = true }
            if field.name.isPseudo { self.lineBytes += field.bytes }
        }
    }

    mutating func removeAll() {
        (self.lineBytes, self.cookieBytes, self.status) = (0, 0, 0)
        (self.contentLength, self.contentClass, self.isEncoded) = (nil, .unknown, false)
        guard self.hasTexts else { return }
        self = HTTP2Head()
    }

    /// - Parameter last: The request of an earlier head. Connections often send the same request again.
    /// - Returns: `nil` if there is no method.
    package func request(_ last: inout MessageHead.Request) -> MessageHead.Request? {
        guard !self.method.isEmpty else { return nil }
        let host = self.authority.isEmpty ? self.host : self.authority
        if last.target == self.target, last.host == host, last.method == self.method { return last }
        let request = MessageHead.Request(method: self.method, target: self.target, host: host)
        last = request.mayStay ? request : .none
        return request
    }
}
