package import TrafficReport

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
    private var held: [Report.Record] = []
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
    ///   - records: The records to report. The trial takes out the records that it holds back, and puts them back in
    ///     their order.
    ///   - isLast: Nothing comes after these records.
    package mutating func take(_ records: inout [Report.Record], of exchanges: HTTP1Exchanges, isLast: Bool) {
        if self.isOver {
            if !self.held.isEmpty { records.insert(contentsOf: self.held, at: 0) }
            self.held = []
        } else {
            self.held += records
            records.removeAll(keepingCapacity: true)
            if self.held.count > Self.longest || isLast || !exchanges.isInStep {
                (self.hasFailed, self.held) = (true, [])
            }
        }
        for index in records.indices { self.correct(&records[index]) }
    }

    private func correct(_ record: inout Report.Record) {
        switch record {
        case .exchange(var exchange):
            if exchange.request?.quality == .exact { exchange.request?.quality = .inferred }
            if exchange.response?.quality == .exact { exchange.response?.quality = .inferred }
            record = .exchange(exchange)
        case .connection(var connection):
            // The TLS stream takes the bytes before the join as a handshake.
            connection.sent.tls -= min(connection.sent.tls, self.before.sent)
            connection.received.tls -= min(connection.received.tls, self.before.received)
            record = .connection(connection)
        }
    }
}
