import TrafficReport

/// What the first exchange of a connection reports of the connection.
package struct ConnectionStart {
    /// When the TLS handshake of a client's connection ended: `CLOCK_BOOTTIME`, nanoseconds. 0: unknown, or no TLS.
    package var tlsEndedAt: UInt64 = 0
    /// The process had sent nothing on the connection, except for a TLS handshake, when counting began. `false`: it had
    /// sent bytes, or this is unknown.
    package var isFromStart = false
}

extension Report.Exchange.Outcome {
    /// - Parameters:
    ///   - status: The status of the last response; 0 without a response.
    ///   - startedAt: When the exchange began.
    ///   - time: When the exchange ended.
    ///   - connection: `nil`: this is not the first exchange of its connection.
    init(
        _ ending: Report.Ending,
        status: UInt16,
        from startedAt: UInt64,
        to time: UInt64,
        _ phases: Report.Phases,
        _ connection: ConnectionStart?
    ) {
        self.init()
        self.duration = time - min(time, startedAt)
        (self.ending, self.status, self.phases) = (ending, status, phases)
        guard let connection else { return }
        self.tlsEndedAt = connection.tlsEndedAt
        self.isFirst = connection.isFromStart || connection.tlsEndedAt != 0
    }
}
