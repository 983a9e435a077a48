import TrafficReport

/// Holds back the records of a connection that was joined late until the connection is in step. In step means: every
/// request so far has its answer, nothing else has passed, and the next request begins or the connection ends.
///
/// The records are then reported as ``Report/Quality/inferred``. If the connection is never in step, nothing is
/// reported, and its bytes stay unattributed.
package struct LateTrial {
    /// Records that are held back, at most. A client that never waits for its answers is not joined.
    package static let longest = 64

    /// Bytes of the socket's stream before the first counted byte. They belong to no message.
    private let before: (sent: UInt64, received: UInt64)
    private var held = RecordBatch()
    private var hasBegun = false
    /// The connection was in step.
    private var isOver = false
    /// The connection failed the trial: it was not in step in time.
    package private(set) var hasFailed = false

    /// - Parameters:
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: Bytes of the socket's stream that were received before.
    package init(sent: UInt64, received: UInt64) {
        self.before = (sent, received)
    }

    /// To be called when bytes of a request come, and when the connection ends.
    ///
    /// - Parameter exchanges: The exchanges before these bytes.
    package mutating func goesOn(_ exchanges: HTTP1Exchanges) {
        if self.hasBegun, !self.hasFailed, exchanges.isIdle, exchanges.isInStep { self.isOver = true }
        self.hasBegun = true
    }

    /// - Parameters:
    ///   - records: The records to report. The trial takes out the records that it holds back, and puts them back
    ///     before later ones.
    ///   - isLast: Nothing comes after these records.
    package mutating func take(_ records: inout RecordBatch, of exchanges: HTTP1Exchanges, isLast: Bool) {
        self.held.append(contentsOf: records)
        records.removeAll()
        if self.isOver {
            swap(&records, &self.held)
            self.correct(&records)
        } else if self.held.count > Self.longest || isLast || !exchanges.isInStep {
            (self.hasFailed, self.held) = (true, RecordBatch())
        }
    }

    private func correct(_ records: inout RecordBatch) {
        records.correct { exchange in
            if exchange.request?.quality == .exact { exchange.request?.quality = .inferred }
            if exchange.response?.quality == .exact { exchange.response?.quality = .inferred }
        } _: { connection in
            // The TLS stream takes the bytes before the join as a handshake.
            connection.sent.tls -= min(connection.sent.tls, self.before.sent)
            connection.received.tls -= min(connection.received.tls, self.before.received)
        }
    }
}
