/// The exchanges of one connection, of one version of HTTP, found in the bytes of both directions.
package protocol MessageExchanges {
    /// Scans bytes that the process has sent.
    ///
    /// - Parameters:
    ///   - tellsOpen: Tells the messages that have ended at once. `false`: ``tellOpen(_:)`` will, unless the exchange
    ///     ends before.
    ///   - found: Gets the records to report.
    mutating func sent(_ bytes: Span<UInt8>, at time: UInt64, tellsOpen: Bool, _ found: inout RecordBatch)

    /// Counts sent bytes that this process can't look into: part of a file, as part of a body.
    mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ found: inout RecordBatch)

    /// Scans bytes that the process has received; the parameters are those of ``sent(_:at:tellsOpen:_:)``.
    mutating func received(_ bytes: Span<UInt8>, at time: UInt64, tellsOpen: Bool, _ found: inout RecordBatch)

    /// Messages may have ended that are not told, because their exchange goes on. `mutating`: for a getter that another
    /// module calls, the compiler copies the whole connection.
    var isTellable: Bool { mutating get }

    /// Tells the messages that have ended, of exchanges that go on.
    mutating func tellOpen(_ found: inout RecordBatch)

    /// Where the bytes of a direction lie on the socket's stream. With TLS, bytes must have their place before they are
    /// scanned. `mutating`: as ``isTellable``.
    mutating func stream(_ side: Side) -> SocketStream
}

extension MessageExchanges {
    package mutating func sent(_ bytes: Span<UInt8>, at time: UInt64, _ found: inout RecordBatch) {
        self.sent(bytes, at: time, tellsOpen: true, &found)
    }

    package mutating func received(_ bytes: Span<UInt8>, at time: UInt64, _ found: inout RecordBatch) {
        self.received(bytes, at: time, tellsOpen: true, &found)
    }
}
