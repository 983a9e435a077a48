import NIOCore
import TrafficKit

/// HTTP/1.x connections that began while the monitor had no listener.
extension TrafficHTTPHandler {
    /// How many joins of one connection may turn out to be out of step. After that the handler does not join again.
    private static let mostJoins = 16

    /// - Returns: Whether the connection is counted from these bytes on.
    func joins(_ context: ChannelHandlerContext, received data: NIOAny) -> Bool {
        guard self.join != nil else { return false }
        if !self.isLooking { self.look() }
        guard self.isLooking else { return false }
        let buffer = self.unwrapInboundIn(data)
        let bytes = buffer.readableBytesUInt8Span
        self.isRecordOpen = false
        guard self.role == .server else {
            self.join?.answered(bytes)
            return false
        }
        guard self.join?.begins(with: bytes) == true else { return false }
        // With TLS, `received(ciphertext:_:)` called `begin` for the records that these bytes were in.
        if self.tls == nil {
            self.begin(context, SocketFacts(of: context).before(receiving: bytes.count), isLate: true)
        }
        self.joined()
        return true
    }

    func joins(_ context: ChannelHandlerContext, sending data: NIOAny) -> Bool {
        guard self.isLooking, self.join != nil else { return false }
        let part = self.unwrapOutboundIn(data)
        self.isRecordOpen = false
        guard case .byteBuffer(let buffer) = part, buffer.readableBytes > 0 else {
            if self.role == .server, part.readableBytes > 0 { self.join?.answeredUnseen() }
            return false
        }
        guard self.role == .client else {
            self.join?.answered(buffer.readableBytesUInt8Span)
            return false
        }
        guard self.join?.begins(with: buffer.readableBytesUInt8Span) == true else { return false }
        self.begin(context, SocketFacts(of: context), isLate: true)
        self.joined()
        return true
    }

    private func look() {
        guard self.reporter.hasListener else { return }
        self.isLooking = true
        if self.role == .server { self.tls?.plaintext = self }
    }

    private func joined() {
        (self.isCounted, self.join) = (true, nil)
        self.routes?.begin(isWanted: true)
    }

    /// Stops counting: the bytes were no request, or the response did not answer it. The handler looks for the next
    /// request, unless too many joins have failed.
    func leave() {
        guard self.isCounted else { return }
        (self.isCounted, self.failedJoins) = (false, self.failedJoins + 1)
        self.join = self.failedJoins < Self.mostJoins ? LateJoin() : nil
        self.routes?.begin(isWanted: false)
        self.traffic.forgetWrites()
        self.leaveChannel()
    }
}
