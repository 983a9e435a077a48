package import TrafficReport

/// The exchanges of one HTTP/2 connection, by the bytes that pass in both directions.
///
/// Messages share the connection. A message gets the frames of its stream. With TLS it also gets the overhead of each
/// record whose first byte of plaintext belongs to the message. Bytes of no message (the preface, settings, windows,
/// resets) are in the connection's record. Bytes are scanned when their place on the socket's stream is known, so the
/// result is the same with TLS and without.
package struct HTTP2Exchanges: MessageExchanges {
    // The scanners are apart from the records, because a scanner and the records change at the same time.
    private var sentScanner = HTTP2FrameScanner()
    private var receivedScanner = HTTP2FrameScanner()
    private var records: HTTP2Records
    private var isClosed = false

    /// For the outcome of the first exchange.
    package var start: ConnectionStart {
        get { self.records.start }
        set { self.records.start = newValue }
    }

    package mutating func stream(_ side: Side) -> SocketStream { self.records.with(side) { $0.stream } }

    /// - Parameters:
    ///   - sent: Where the sent bytes lie on the socket's stream.
    ///   - received: The same for the other direction.
    ///   - routes: If there are routes, a request is reported when it is answered.
    package init(
        role: Report.Role,
        cookie: UInt64,
        sent: SocketStream,
        received: SocketStream,
        routes: (any RouteSource)?,
        naming: any ExchangeNaming
    ) {
        self.records = HTTP2Records(
            role: role,
            cookie: cookie,
            sent: sent,
            received: received,
            routes: routes,
            naming: naming
        )
    }

    package var isTellable: Bool { mutating get { self.records.isTellable } }

    package mutating func tellOpen(_ found: inout RecordBatch) { self.records.settle(true, &found) }

    /// How many exchanges are open.
    package var pending: Int { self.records.pending }

    /// For tests: what is in memory because of what the peers sent. Each of the numbers has a limit.
    package struct Kept {
        /// Of header blocks and frame headers that are not whole: at most ``HTTP2FrameScanner/longestBlock`` in each
        /// direction.
        package var blockBytes: Int
        /// At most ``HPACKReader/largestTable`` in each direction.
        package var tableBytes: Int
        /// Also streams that have ended: their memory is used again. At most ``HTTP1Exchanges/mostPending``.
        package var streams: Int
        /// Messages that may be told: at most ``HTTP1Exchanges/mostPending``, and none if they are told at once.
        package var tellable: Int
    }

    package var kept: Kept {
        let records = self.records.kept
        return Kept(
            blockBytes: self.sentScanner.keptBytes + self.receivedScanner.keptBytes,
            tableBytes: records.tableBytes,
            streams: records.streams,
            tellable: records.tellable
        )
    }

    package mutating func sent(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        self.records.begin(.sent, time)
        self.sentScanner.scan(bytes, &self.records)
        self.records.settle(tellsOpen, &found)
    }

    package mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ found: inout RecordBatch) {
        self.records.begin(.sent, time)
        self.sentScanner.skip(count, &self.records)
        self.records.settle(true, &found)
    }

    package mutating func received(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        self.records.begin(.received, time)
        self.receivedScanner.scan(bytes, &self.records)
        self.records.settle(tellsOpen, &found)
    }

    /// The connection is over, in both directions.
    ///
    /// - Parameter ending: How exchanges end that are not over.
    package mutating func close(_ ending: Report.Ending, at time: UInt64, _ found: inout RecordBatch) {
        guard !self.isClosed else { return }
        self.isClosed = true
        self.records.begin(.received, time)
        self.receivedScanner.close(&self.records)
        self.records.begin(.sent, time)
        self.sentScanner.close(&self.records)
        self.records.close(ending, &found)
    }
}
