import TestSupport
import TrafficReport

/// Writes both directions of a connection: frames in the order in which they pass, and what they mean.
struct HTTP2Writer {
    /// One frame, or the preface.
    struct Step {
        let isClient: Bool
        var bytes: [UInt8]
        /// Where the content of a body is.
        var body: Range<Int>?
        let stream: UInt32
        /// The frame begins and ends nothing, so a frame of another stream, in the other direction, may pass around it.
        var isQuiet = false
    }

    private struct Stream {
        let number: UInt32
        var hasRequest = false
        /// The request is complete.
        var isAsked = false
        var isAnswering = false
        var isAnswered = false
        var isReset = false
    }

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let targets = ["/", "/index.html", "/a/b?c=d", "/x", "/private/1", "/private", "/a/" + "b/" * 60]

    private(set) var steps: [Step] = []
    private(set) var truth = HTTP2Truth()
    /// Of the client and of the server.
    private var writers: [HPACKWriter]
    private var streams: [Stream] = []
    private var nextStream: UInt32 = 1

    /// - Parameter isExtreme: More streams than a connection may have open, and a header block that is too long. Otherwise
    ///   both are rare, because they take long.
    init(_ words: HuffmanWords, isExtreme: Bool, _ random: inout Seeded) {
        self.writers = [HPACKWriter(words), HPACKWriter(words)]
        self.begin(&random)
        let isCrowded = isExtreme || random.isOne(in: 1_000)
        if isCrowded {
            for _ in 0..<HTTP2Truth.mostOpen + random.number(-3..<12) { self.openStream(isShort: true, &random) }
        }
        for _ in 0..<random.pick([1, 4, 12, 30]) { self.addTurn(&random) }
        if isExtreme || random.isOne(in: 4_000) { self.addFlood(&random) }
        // The highest bit of a stream's number is reserved, and means nothing (RFC 9113 section 4.1).
        for index in self.steps.indices where self.steps[index].bytes[0] == 0 && random.isOne(in: 40) {
            self.steps[index].bytes[5] |= 0x80
        }
    }

    /// - Parameter ending: How exchanges end that are not over.
    mutating func close(_ ending: Report.Ending) { self.truth.close(ending) }

    private mutating func begin(_ random: inout Seeded) {
        if random.isOne(in: 8) {
            // The connection is seen from somewhere in its middle, or a client's settings have no preface.
            self.nextStream = UInt32(2 * random.number(0..<4) + 1)
        } else {
            self.steps.append(Step(isClient: true, bytes: Self.preface, stream: 0))
            self.truth.takePreface(Self.preface.count, 0)
        }
        if !random.isOne(in: 16) { self.emit(HTTP2Frame(.settings, 0, [0, 3, 0, 0, 0, 100]), isClient: true) }
        if !random.isOne(in: 16) { self.emit(HTTP2Frame(.settings, 0), isClient: false) }
        // A client may leave out numbers.
        if random.isOne(in: 8) { self.nextStream += 4 }
    }

    private mutating func emit(_ frame: HTTP2Frame, isClient: Bool) {
        var step = Step(isClient: isClient, bytes: frame.bytes, stream: frame.stream)
        let start = HTTP2Frame.headerBytes + frame.prefix.count
        if frame.kind == .data, frame.fault == nil { step.body = start..<start + frame.content.count }
        let isEvent = [.headers, .continuation, .pushPromise, .reset].contains(frame.kind) || frame.fault != nil
        let isEnd = frame.kind == .data && frame.has(HTTP2Frame.Flag.endStream)
        step.isQuiet = !isEvent && !isEnd
        self.steps.append(step)
        self.truth.take(frame, isClient ? 0 : 1)
    }

    private mutating func addTurn(_ random: inout Seeded) {
        let open = self.streams.indices.filter { !self.streams[$0].isReset }
        if open.isEmpty || random.isOne(in: 6) { return self.openStream(isShort: false, &random) }
        if random.isOne(in: 6) { return self.addBeside(&random) }
        if random.isOne(in: 200) { return self.addFault(&random) }
        let index = random.pick(Array(open.suffix(6)))
        if random.isOne(in: 12) { return self.reset(index, &random) }
        if random.isOne(in: 2) { self.ask(index, &random) } else { self.answer(index, &random) }
    }

    // MARK: Streams

    private mutating func openStream(isShort: Bool, _ random: inout Seeded) {
        self.streams.append(Stream(number: self.nextStream))
        self.nextStream += random.isOne(in: 10) ? 6 : 2
        let index = self.streams.count - 1
        // A server may answer before the request is known to be sent.
        if !isShort, random.isOne(in: 20) { return self.answer(index, &random) }
        self.askHead(index, isLast: !isShort && random.isOne(in: 2), isShort: isShort, &random)
    }

    private mutating func askHead(_ index: Int, isLast: Bool, isShort: Bool, _ random: inout Seeded) {
        var fields = [(name: ":method", value: random.pick(["GET", "POST", "PUT"])), (":scheme", "https")]
        fields.append((random.isOne(in: 4) ? "host" : ":authority", random.pick(["www.example.com", "h"])))
        fields.append((":path", random.pick(Self.targets)))
        if !isShort { fields += Self.fields(&random) }
        self.addBlock(fields, index, isClient: true, isLast: isLast, &random)
        (self.streams[index].hasRequest, self.streams[index].isAsked) = (true, isLast)
    }

    private mutating func ask(_ index: Int, _ random: inout Seeded) {
        guard !self.streams[index].isAsked else { return self.addBehind(index, isClient: true, &random) }
        let isLast = random.isOne(in: 3)
        if !self.streams[index].hasRequest {
            self.askHead(index, isLast: isLast, isShort: false, &random)
        } else if isLast, random.isOne(in: 3) {
            self.addBlock(Self.trailers(&random), index, isClient: true, isLast: true, &random)
        } else {
            self.addBody(index, isClient: true, isLast: isLast, &random)
        }
        self.streams[index].isAsked = isLast
    }

    private mutating func answer(_ index: Int, _ random: inout Seeded) {
        guard !self.streams[index].isAnswered else { return self.addBehind(index, isClient: false, &random) }
        guard self.streams[index].isAnswering else {
            if random.isOne(in: 3) {
                return self.addBlock(
                    [(":status", random.pick(["100", "103"])), ("link", "/x")],
                    index,
                    isClient: false,
                    isLast: false,
                    &random
                )
            }
            let isLast = random.isOne(in: 3)
            let status = random.pick(["200", "204", "301", "404", "503"])
            self.addBlock(
                [(":status", status)] + Self.fields(&random),
                index,
                isClient: false,
                isLast: isLast,
                &random
            )
            (self.streams[index].isAnswering, self.streams[index].isAnswered) = (true, isLast)
            return
        }
        let isLast = random.isOne(in: 3)
        if isLast, random.isOne(in: 3) {
            self.addBlock(Self.trailers(&random), index, isClient: false, isLast: true, &random)
        } else {
            self.addBody(index, isClient: false, isLast: isLast, &random)
        }
        self.streams[index].isAnswered = isLast
    }

    /// Writes what no peer may write behind the end of a message (RFC 9113 section 5.1).
    private mutating func addBehind(_ index: Int, isClient: Bool, _ random: inout Seeded) {
        guard random.isOne(in: 20) else { return }
        let isLast = random.isOne(in: 2)
        if random.isOne(in: 2) { return self.addBody(index, isClient: isClient, isLast: isLast, &random) }
        let fields = [(name: isClient ? ":method" : ":status", value: "404"), (":path", "/private")]
        self.addBlock(fields, index, isClient: isClient, isLast: isLast, &random)
    }

    private mutating func reset(_ index: Int, _ random: inout Seeded) {
        let error: UInt32 = random.pick([0, 0, 8, 7])
        let isClient = random.isOne(in: 2)
        self.emit(HTTP2Frame(.reset, self.streams[index].number, HTTP2Frame.bytes(of: error)), isClient: isClient)
        // The other side may not know yet, and send on.
        if !random.isOne(in: 3) { self.streams[index].isReset = true }
    }

    private static func fields(_ random: inout Seeded) -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        if random.isOne(in: 3) { fields.append(("content-length", random.pick(["0", "5", "18446744073709551614"]))) }
        if random.isOne(in: 4) { fields.append(("content-type", "application/json")) }
        if random.isOne(in: 8) { fields.append(("content-encoding", "gzip")) }
        let others = ["cookie", "set-cookie", "user-agent", "x-trace", "cache-control"]
        for _ in 0..<random.number(0..<4) {
            fields.append((random.pick(others), random.pick(["no-cache", "k=v", "", "v" * 300, "0"])))
        }
        return fields
    }

    private static func trailers(_ random: inout Seeded) -> [(name: String, value: String)] {
        random.pick([[], [("checksum", "1")], [("checksum", "no-cache"), ("set-cookie", "a=b")]])
    }

    // MARK: Frames

    private mutating func addBody(_ index: Int, isClient: Bool, isLast: Bool, _ random: inout Seeded) {
        let most = random.isOne(in: 30) ? random.pick([300, 20_000, 70_000]) : 60
        let count = random.number(0..<most)
        let flags = isLast ? HTTP2Frame.Flag.endStream : 0
        var frame = HTTP2Frame(.data, self.streams[index].number, flags: flags, .init(repeating: 0, count: count))
        Self.pad(&frame, &random)
        self.emit(frame, isClient: isClient)
    }

    private static func pad(_ frame: inout HTTP2Frame, _ random: inout Seeded) {
        guard random.isOne(in: 4) else { return }
        frame.padding = random.pick([0, 1, 7, 255])
        frame.flags |= HTTP2Frame.Flag.padded
        frame.prefix.insert(UInt8(frame.padding), at: 0)
    }

    private mutating func addBlock(
        _ fields: [(name: String, value: String)],
        _ index: Int,
        isClient: Bool,
        isLast: Bool,
        _ random: inout Seeded
    ) {
        var frame = HTTP2Frame(.headers, self.streams[index].number, flags: isLast ? HTTP2Frame.Flag.endStream : 0)
        if random.isOne(in: 8) {
            frame.flags |= HTTP2Frame.Flag.priority
            frame.prefix = [0x80, 0, 0, 0, 16]
        }
        self.add(self.writers[isClient ? 0 : 1].block(of: fields, &random), frame, isClient: isClient, &random)
    }

    /// Writes a block in one frame or in several.
    private mutating func add(_ block: HTTP2Block, _ first: HTTP2Frame, isClient: Bool, _ random: inout Seeded) {
        var parts = [block.bytes[...]]
        if random.isOne(in: 4) { parts = random.split(block.bytes, most: 3) }
        if parts.isEmpty { parts = [[]] }
        if random.isOne(in: 16) { parts.append([]) }
        for (number, part) in parts.enumerated() {
            var frame = number == 0 ? first : HTTP2Frame(.continuation, first.stream)
            frame.content = Array(part)
            if number == 0 { Self.pad(&frame, &random) }
            if number == parts.count - 1 {
                frame.flags |= HTTP2Frame.Flag.endHeaders
                frame.fields = block.fields
            }
            self.emit(frame, isClient: isClient)
        }
    }

    // MARK: Frames of no message

    private mutating func addBeside(_ random: inout Seeded) {
        let stream = self.streams.isEmpty ? 0 : random.pick(Array(self.streams.suffix(20))).number
        let isClient = random.isOne(in: 2)
        switch random.number(0..<8) {
        case 0: self.emit(HTTP2Frame(.settings, 0, flags: HTTP2Frame.Flag.endStream), isClient: isClient)
        case 1: self.emit(HTTP2Frame(.ping, 0, .init(repeating: 9, count: 8)), isClient: isClient)
        case 2: self.emit(HTTP2Frame(.goAway, 0, .init(repeating: 0, count: 8)), isClient: isClient)
        case 3: self.emit(HTTP2Frame(.windowUpdate, random.pick([0, stream]), [0, 0, 1, 0]), isClient: isClient)
        case 4: self.emit(HTTP2Frame(.priority, stream + 2, [0, 0, 0, 1, 16]), isClient: isClient)
        case 5: self.addPush(stream, &random)
        default:
            // Frames of types and with flags that nobody knows (RFC 9113 section 5.5).
            let content = [UInt8](repeating: 1, count: random.number(0..<40))
            let frame = HTTP2Frame(
                UInt8(random.number(10..<256)),
                random.pick([0, stream]),
                flags: UInt8(random.number(0..<256)),
                content
            )
            self.emit(frame, isClient: isClient)
        }
    }

    /// A server promises a response that nobody asked for, and may send it.
    private mutating func addPush(_ stream: UInt32, _ random: inout Seeded) {
        guard stream != 0 else { return }
        let promised = UInt32(2 * random.number(1..<6))
        var frame = HTTP2Frame(.pushPromise, stream)
        frame.prefix = HTTP2Frame.bytes(of: promised)
        let request = self.writers[1].block(of: [(":method", "GET"), (":path", random.pick(Self.targets))], &random)
        self.add(request, frame, isClient: false, &random)
        guard random.isOne(in: 2) else { return }
        let response = self.writers[1].block(of: [(":status", "200")], &random)
        self.add(response, HTTP2Frame(.headers, promised), isClient: false, &random)
        self.emit(HTTP2Frame(.data, promised, flags: HTTP2Frame.Flag.endStream, [1, 2]), isClient: false)
    }

    /// A header block that never ends, beyond what the library keeps.
    private mutating func addFlood(_ random: inout Seeded) {
        let (size, stream, isClient) = (16_384, self.nextStream, random.isOne(in: 2))
        self.emit(HTTP2Frame(.headers, stream, .init(repeating: 0x82, count: size)), isClient: isClient)
        for number in 2...HTTP2Truth.longestBlock / size + 1 {
            var frame = HTTP2Frame(.continuation, stream, .init(repeating: 0x82, count: size))
            if number * size > HTTP2Truth.longestBlock { frame.fault = .content }
            self.emit(frame, isClient: isClient)
        }
    }

    /// A frame that may not be there. Nothing of this direction can be read from there on.
    private mutating func addFault(_ random: inout Seeded) {
        let stream = random.pick(Array(self.streams.suffix(6))).number
        let headers = HTTP2Frame.Flag.endHeaders
        var frames = [
            HTTP2Frame(.data, 0, [1, 2]), HTTP2Frame(.headers, 0, flags: headers, [0x82]),
            HTTP2Frame(.reset, 0, [0, 0, 0, 8]), HTTP2Frame(.pushPromise, 0, flags: headers, [0, 0, 0, 2]),
            HTTP2Frame(.continuation, 0, flags: headers, [0x82]), HTTP2Frame(.continuation, stream, flags: headers),
            HTTP2Frame(.reset, stream, [0, 0, 8]), HTTP2Frame(.reset, stream),
        ]
        for index in frames.indices { frames[index].fault = .header }
        frames.append(HTTP2Frame(.data, stream, flags: HTTP2Frame.Flag.padded, [5, 1, 2, 3, 4]))
        frames.append(HTTP2Frame(.data, stream, flags: HTTP2Frame.Flag.padded))
        for index in frames.indices.suffix(2) { frames[index].fault = .content }
        self.emit(random.pick(frames), isClient: random.isOne(in: 2))
    }
}

private func * (text: String, count: Int) -> String { String(repeating: text, count: count) }
