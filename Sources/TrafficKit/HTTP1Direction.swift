import TrafficReport

/// One direction of an HTTP/1.x connection.
struct HTTP1Direction {
    var scanner: HTTP1Scanner
    /// Where the bytes lie on the socket's stream.
    var stream: SocketStream
    /// Of the current message, once it has come. Of an interim response until the next head.
    var head: MessageHead?
    var beganAt: UInt64 = 0
    var beganPosition: UInt64 = 0
    /// Bytes of no message. Opaque bytes count at the end.
    var remainder = Report.Connection.Remainder()
    private var opaqueFrom: UInt64 = .max

    init(_ scanner: HTTP1Scanner, _ stream: SocketStream) { (self.scanner, self.stream) = (scanner, stream) }

    /// Where the message begins that has not ended, or where the next will begin.
    var settled: UInt64 { self.scanner.isInMessage ? self.beganPosition : self.scanner.position }

    mutating func began(at position: UInt64, _ time: UInt64) {
        (self.beganPosition, self.beganAt) = (position, time)
    }

    mutating func becameOpaque() { self.opaqueFrom = self.scanner.position }

    /// The stream is at its end.
    mutating func close() {
        let position = self.scanner.position
        self.remainder.opaque += position - min(self.opaqueFrom, position)
    }

    /// The message that ends here.
    func message(
        _ head: MessageHead,
        _ lengths: HTTP1Scanner.Lengths,
        isComplete: Bool,
        at time: UInt64
    ) -> Report.Exchange.Message {
        let place = self.stream.find(self.beganPosition, self.scanner.position)
        var message = Report.Exchange.Message()
        message.interval = place.interval
        message.tlsBytes = place.interval.bytes - min(lengths.total, place.interval.bytes)
        message.quality = place.isExact ? .exact : .inferred
        message.startedAt = self.beganAt
        message.finishedAt = time
        message.bodyBytes = lengths.body
        message.decodedBodyBytes = head.isEncoded ? nil : lengths.body
        message.declaredBodyBytes = head.contentLength
        message.framingBytes = lengths.framing
        message.lineBytes = UInt32(clamping: lengths.line)
        message.headerBytes = UInt32(clamping: lengths.header)
        message.cookieBytes = UInt32(clamping: lengths.cookie)
        message.status = head.status
        message.version = head.version
        message.contentClass = lengths.body == 0 ? .none : head.contentClass
        message.isIncomplete = !isComplete
        return message
    }
}
