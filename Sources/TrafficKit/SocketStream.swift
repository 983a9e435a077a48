import TrafficReport

/// A direction of a connection, for this process.
package enum Side: CaseIterable, Sendable {
    case received, sent
}

/// In memory of its own, so that a connection without TLS does not have it.
package typealias SharedTLSStream = ManagedBuffer<TLSStream, Void>

extension SharedTLSStream {
    /// One access answers several questions: Swift enforces exclusive access to an object's properties at run time.
    @inline(__always)
    package func with<Result>(_ body: (inout TLSStream) -> Result) -> Result { body(&self.header) }
}

/// One direction of a connection's socket: where on the socket's stream the bytes lie that HTTP reads.
package struct SocketStream {
    /// Bytes of the socket's stream that had passed before the first byte that HTTP reads. With TLS `tls` knows them.
    let base: UInt64
    /// Shared by all copies.
    package let tls: SharedTLSStream?
    /// Bytes of the socket's stream that reported messages took.
    private var claimed: UInt64 = 0

    package init(base: UInt64 = 0, tls: TLSStream? = nil) {
        (self.base, self.tls) = (base, tls.map { stream in .create(minimumCapacity: 0) { _ in stream } })
    }

    /// - Parameters:
    ///   - from: On the stream that HTTP reads.
    ///   - to: The end, on the same stream.
    /// - Returns: Where these bytes are on the socket's stream. An empty interval: the ciphertext never passed.
    func find(_ from: UInt64, _ to: UInt64) -> (interval: Report.Interval, isExact: Bool) {
        guard let tls = self.tls else {
            return (Report.Interval(from: self.base + from, to: self.base + to), true)
        }
        return tls.header.interval(Report.Interval(from: from, to: to)) ?? (Report.Interval(), false)
    }

    /// Notes that a reported message, or a part of it, took these bytes.
    mutating func claim(_ interval: Report.Interval) { self.claimed += interval.bytes }

    /// Forgets the places of bytes on the stream that HTTP reads, except for `start`, where the message under way begins,
    /// and what comes from `position` on.
    mutating func forget(before start: UInt64, readTo position: UInt64) {
        self.tls?.header.forget(before: start, readTo: position)
    }

    /// Bytes that TLS moved beside messages.
    ///
    /// - Parameters:
    ///   - remainder: The plaintext of no reported message.
    ///   - isLast: The connection is over. Then all bytes count that no message took, also those that TLS added to
    ///     plaintext of no reported message. Before, only the records without plaintext count.
    func besideMessages(_ remainder: Report.Connection.Remainder, isLast: Bool) -> UInt64 {
        guard let tls = self.tls else { return 0 }
        guard isLast else { return tls.header.beside }
        let known = self.claimed + remainder.framing + remainder.opaque + remainder.excluded
        let position = tls.header.position
        return position - min(known, position)
    }
}
