import TrafficKit

/// What the scanner says of a stream, with positions.
struct HTTP1Log: Hashable {
    struct Message: Hashable {
        let start: UInt64
        var end: UInt64 = 0
        var lengths = HTTP1Scanner.Lengths()
        /// The heads of interim responses, then the head of the message.
        var heads: [MessageHead] = []
        var request = MessageHead.Request.none
        var isComplete = false
    }

    private var methods: [String]
    private(set) var messages: [Message] = []
    /// Bytes of line ends between messages.
    private(set) var passed: UInt64 = 0
    private(set) var opaqueFrom: UInt64?

    var complete: ArraySlice<Message> { self.messages.prefix { $0.isComplete } }

    /// Whether the last message says that no message comes after it.
    var isOver: Bool {
        guard let message = self.messages.last, let head = message.heads.last else { return false }
        return head.isLast || head.status == 0 && (head.asksForUpgrade || message.request.method == "CONNECT")
    }

    /// - Parameter methods: The methods that the responses answer.
    init(_ methods: [String]) { self.methods = methods.reversed() }

    fileprivate mutating func pass(_ input: borrowing HTTP1Scanner.Input, _ scanner: inout HTTP1Scanner) {
        var index = 0
        while let event = scanner.next(input, &index, answering: self.methods.last.map { HTTP1Method($0) }) {
            switch event {
            case .lineEnd: self.passed += 1
            case .began(let position): self.messages.append(Message(start: position))
            case .head:
                self.messages[self.messages.count - 1].heads.append(scanner.head)
                self.messages[self.messages.count - 1].request = scanner.request
                if scanner.head.status >= 200 { _ = self.methods.popLast() }
            case .ended(let lengths, let isComplete):
                // An end without a message is the end of another protocol.
                guard var message = self.messages.popLast() else { break }
                (message.lengths, message.end, message.isComplete) = (lengths, scanner.position, isComplete)
                self.messages.append(message)
            case .opaque: self.opaqueFrom = scanner.position
            }
        }
    }
}

extension HTTP1Log {
    /// - Parameter pieces: Pieces of the whole stream.
    static func read(_ pieces: [ArraySlice<UInt8>], _ kind: HTTP1Scanner.Kind, _ methods: [String]) -> Self {
        var (scanner, log) = (HTTP1Scanner(kind, isReadHere: true), HTTP1Log(methods))
        for piece in pieces { log.pass(.bytes(Array(piece).span), &scanner) }
        log.pass(.end(isClean: true), &scanner)
        return log
    }

    /// Checks that messages follow one another with only line ends between them, and that the lengths of each add up.
    ///
    /// - Returns: Where that is wrong; `nil` where all is right.
    func gap(in bytes: [UInt8]) -> String? {
        var (position, passed) = (UInt64(0), UInt64(0))
        for message in self.messages {
            guard message.start >= position, message.end > message.start, message.end <= bytes.count else {
                return "\(message.start)..<\(message.end) behind \(position)"
            }
            let between = bytes[Int(position)..<Int(message.start)]
            guard between.allSatisfy(\.isLineEnd), !bytes[Int(message.start)].isLineEnd else {
                return "a message begins at \(message.start)"
            }
            guard message.lengths.total == message.end - message.start,
                message.lengths.cookie <= message.lengths.header
            else { return "\(message.start)..<\(message.end) has \(message.lengths)" }
            passed += UInt64(between.count)
            position = message.end
        }
        let rest = bytes[Int(position)..<Int(self.opaqueFrom ?? UInt64(bytes.count))]
        guard rest.allSatisfy(\.isLineEnd), self.passed == passed + UInt64(rest.count) else {
            return "\(self.passed) bytes between messages"
        }
        return nil
    }
}

extension UInt8 {
    var isLineEnd: Bool { self == UInt8(ascii: "\r") || self == UInt8(ascii: "\n") }
}
