import TrafficReport

/// What the frames of a connection are, one by one as they were written: which message has which bytes, and how each
/// exchange ends.
struct HTTP2Truth {
    struct Message: Hashable {
        var (body, framing, line, header, cookie): (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)
        var (from, to): (UInt64, UInt64) = (0, 0)
        var status: UInt16 = 0
        var declared: UInt64?
        var isJSON = false
        var isEncoded = false
        var hasHead = false
        var hasEnded = false

        var bytes: UInt64 { self.body + self.framing + self.line + self.header }
    }

    struct Exchange {
        let stream: UInt32
        /// By direction: the client's is 0.
        var messages = [Message(), Message()]
        var method = ""
        var host = ""
        var target = ""
        var ending: Report.Ending?

        /// The app's filter keeps the exchange out.
        var isPrivate: Bool { self.target.hasPrefix("/private") }
        /// The message is in the records.
        func isTold(_ side: Int) -> Bool {
            self.messages[side].hasHead && self.messages[0].hasHead && !self.isPrivate
        }
    }

    /// Bytes of no message that is told.
    struct Rest: Hashable {
        var (framing, opaque, excluded): (UInt64, UInt64, UInt64) = (0, 0, 0)
    }

    private struct Direction {
        var position: UInt64 = 0
        var rest = Rest()
        var hasFrames = false
        var beganWithSettings = false
        var isOpaque = false
        /// The stream whose block is under way, and whether its message ends with the block.
        var block: (stream: UInt32, isLast: Bool) = (0, false)
        /// Where the bytes of each frame end, and the exchange that has them.
        var owners: [(end: UInt64, exchange: Int?)] = []
    }

    /// What the library keeps, at most: exchanges, and bytes of a header block.
    static let mostOpen = 1_000
    static let longestBlock = 1 << 20

    /// In the order in which they began.
    private(set) var exchanges: [Exchange] = []
    private var open: [UInt32: Int] = [:]
    private var lastStream: UInt32 = 0
    private var hasRequest = false
    /// The connection's first request came before the first byte.
    private(set) var isLate = false
    private var directions = [Direction(), Direction()]

    func rest(_ side: Int) -> Rest { self.directions[side].rest }

    /// - Returns: The exchange that has the byte; `nil`: none.
    func owner(_ side: Int, of position: UInt64) -> Int? {
        let owners = self.directions[side].owners
        var (low, high) = (0, owners.count)
        while low < high {
            let middle = (low + high) / 2
            if owners[middle].end <= position { low = middle + 1 } else { high = middle }
        }
        return owners[low].exchange
    }

    /// - Parameter side: 0 for the client.
    mutating func takePreface(_ count: Int, _ side: Int) { self.add(count, nil, side) }

    mutating func take(_ frame: HTTP2Frame, _ side: Int) {
        if !self.directions[side].hasFrames {
            self.directions[side].hasFrames = true
            self.directions[side].beganWithSettings = frame.kind == .settings && !frame.has(HTTP2Frame.Flag.endStream)
        }
        if frame.fault == .header { self.directions[side].isOpaque = true }
        guard !self.directions[side].isOpaque else { return self.add(frame.count, nil, side) }
        if frame.kind == .headers { self.directions[side].block = (frame.stream, frame.has(HTTP2Frame.Flag.endStream)) }
        if frame.kind == .pushPromise { self.directions[side].block = (0, false) }
        let block = self.directions[side].block
        let stream: UInt32 =
            switch frame.kind {
            case .data, .headers: frame.stream
            case .continuation: block.stream
            default: 0
            }
        let exchange = self.exchange(of: stream, side)
        guard frame.fault == nil else {
            self.add(HTTP2Frame.headerBytes, exchange, side)
            self.count(exchange, side) { $0.framing += UInt64(HTTP2Frame.headerBytes) }
            self.directions[side].isOpaque = true
            return self.add(frame.count - HTTP2Frame.headerBytes, nil, side)
        }
        self.add(frame.count, exchange, side)
        self.count(exchange, side) {
            $0.framing += UInt64(frame.count - frame.content.count)
            if frame.kind == .data { $0.body += UInt64(frame.content.count) }
            if frame.kind != .data { $0.header += UInt64(frame.content.count) }
        }
        if let fields = frame.fields, stream != 0 { self.take(fields, stream, side) }
        let isEnd = frame.kind == .data ? frame.has(HTTP2Frame.Flag.endStream) : frame.fields != nil && block.isLast
        if isEnd, stream != 0 { self.end(stream, side) }
        if frame.kind == .reset { self.reset(frame, side) }
    }

    /// The connection is over.
    mutating func close(_ ending: Report.Ending) {
        for stream in self.open.keys { self.close(stream, ending) }
    }

    private mutating func add(_ count: Int, _ exchange: Int?, _ side: Int) {
        self.directions[side].position += UInt64(count)
        self.directions[side].owners.append((self.directions[side].position, exchange))
        guard let exchange else {
            let isOpaque = self.directions[side].isOpaque || self.isLate
            if isOpaque {
                self.directions[side].rest.opaque += UInt64(count)
            } else {
                self.directions[side].rest.framing += UInt64(count)
            }
            return
        }
        let end = self.directions[side].position
        if self.exchanges[exchange].messages[side].to == 0 {
            self.exchanges[exchange].messages[side].from = end - UInt64(count)
        }
        self.exchanges[exchange].messages[side].to = end
    }

    private mutating func count(_ exchange: Int?, _ side: Int, _ body: (inout Message) -> Void) {
        if let exchange { body(&self.exchanges[exchange].messages[side]) }
    }

    /// A client's streams have odd numbers, which rise (RFC 9113 section 5.1.1). What comes behind the end of a message
    /// is of no message.
    private mutating func exchange(of stream: UInt32, _ side: Int) -> Int? {
        guard stream != 0, !self.isLate else { return nil }
        if let exchange = self.open[stream] {
            return self.exchanges[exchange].messages[side].hasEnded ? nil : exchange
        }
        guard stream % 2 == 1, stream > self.lastStream else { return nil }
        self.lastStream = stream
        guard self.open.count < Self.mostOpen else { return nil }
        self.open[stream] = self.exchanges.count
        self.exchanges.append(Exchange(stream: stream))
        return self.exchanges.count - 1
    }

    private mutating func take(_ fields: [HPACKWriter.Field], _ stream: UInt32, _ side: Int) {
        if side == 0, !self.hasRequest {
            self.hasRequest = true
            if stream > 1, !self.directions[0].beganWithSettings {
                self.close(.truncated)
                self.isLate = true
            }
        }
        guard let exchange = self.open[stream], !self.exchanges[exchange].messages[side].hasEnded else { return }
        let bytes = { (isCounted: (String) -> Bool) in
            fields.filter { isCounted($0.name) }.reduce(0) { $0 + $1.bytes }
        }
        let line = bytes { $0.hasPrefix(":") }
        self.exchanges[exchange].messages[side].line += line
        self.exchanges[exchange].messages[side].header -= line
        self.exchanges[exchange].messages[side].cookie += bytes { $0 == "cookie" || $0 == "set-cookie" }
        guard !self.exchanges[exchange].messages[side].hasHead else { return }
        let value = { (name: String) in fields.first { $0.name == name }?.value }
        self.count(exchange, side) {
            $0.status = value(":status").flatMap { UInt16($0) } ?? 0
            $0.hasHead = !(100..<200).contains($0.status)
            $0.declared = value("content-length").flatMap { UInt64($0) }
            ($0.isJSON, $0.isEncoded) = (value("content-type") != nil, value("content-encoding") != nil)
        }
        guard side == 0 else { return }
        self.exchanges[exchange].method = value(":method") ?? ""
        self.exchanges[exchange].host = value(":authority") ?? value("host") ?? ""
        self.exchanges[exchange].target = String((value(":path") ?? "").prefix { $0 != "?" })
    }

    private mutating func end(_ stream: UInt32, _ side: Int) {
        guard let exchange = self.open[stream] else { return }
        self.exchanges[exchange].messages[side].hasEnded = true
        let messages = self.exchanges[exchange].messages
        if messages[0].hasEnded, messages[1].hasEnded { self.close(stream, Self.ending(messages[1].status)) }
    }

    /// RFC 9113 section 8.1: a server that has answered needs no more of the request.
    private mutating func reset(_ frame: HTTP2Frame, _ side: Int) {
        guard let exchange = self.open[frame.stream] else { return }
        let answer = self.exchanges[exchange].messages[1]
        let isDone = answer.hasEnded && frame.content.allSatisfy { $0 == 0 }
        self.close(frame.stream, side == 0 ? .cancelled : isDone ? Self.ending(answer.status) : .reset)
    }

    private static func ending(_ status: UInt16) -> Report.Ending {
        status >= 500 ? .http5xx : status >= 400 ? .http4xx : .ok
    }

    private mutating func close(_ stream: UInt32, _ ending: Report.Ending) {
        guard let exchange = self.open.removeValue(forKey: stream) else { return }
        self.exchanges[exchange].ending = ending
        for side in [0, 1] where !self.exchanges[exchange].isTold(side) {
            let message = self.exchanges[exchange].messages[side]
            let isExcluded = message.hasHead && self.exchanges[exchange].messages[0].hasHead
            if isExcluded { self.directions[side].rest.excluded += message.bytes }
            if !isExcluded { self.directions[side].rest.framing += message.bytes }
        }
    }
}
