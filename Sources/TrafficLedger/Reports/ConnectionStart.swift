import TrafficModel
import TrafficReport

/// How the connection of a client's exchange began.
struct ConnectionStart: Codable {
    /// The times that the kernel saw.
    var times: ConnectTimes
    /// The exchange has the first byte of the socket's stream, so the connection had no exchange before this exchange.
    var isFirst: Bool
}

extension Report.Exchange.Outcome {
    /// Adds the phases `connect` and `tls` to the first exchange of a client's connection, if the library leaves them
    /// open. The library sees a connection only after it is made, but the kernel saw how long that took. Impossible
    /// times add nothing.
    mutating func complete(with connection: ConnectionStart, of exchange: borrowing Report.Exchange) {
        let isFirst = self.isFirst || connection.isFirst
        guard exchange.role != .server, self.phases.connect == nil,
            let connect = Report.Phases.microseconds(connection.times.duration)
        else { return }
        let established = connection.times.endedAt
        if established <= exchange.startedAt {
            let tls = self.tls(after: established, before: exchange.startedAt)
            // Only the first exchange of a connection has a handshake.
            guard isFirst || tls != nil else { return }
            self.phases.connect = connect
            self.extend(by: connection.times.duration)
            guard let tls, self.phases.tls == nil else { return }
            self.phases.tls = Report.Phases.microseconds(tls)
            self.extend(by: tls)
        } else if isFirst, exchange.startedAt <= connection.times.beganAt,
            established - exchange.startedAt <= self.duration,
            self.phases.sum + UInt64(connect) <= self.duration / 1_000
        {
            // The library does not see its sockets, and began to count before it connected.
            self.phases.connect = connect
        }
    }

    /// - Parameter request: When the request began, which is after the handshake.
    /// - Returns: Nanoseconds from `established` to the end of the TLS handshake.
    private func tls(after established: UInt64, before request: UInt64) -> UInt64? {
        guard self.tlsEndedAt != 0, established <= self.tlsEndedAt, self.tlsEndedAt <= request,
            Report.Phases.microseconds(self.tlsEndedAt - established) != nil
        else { return nil }
        return self.tlsEndedAt - established
    }

    private mutating func extend(by nanoseconds: UInt64) {
        let (sum, isTooMuch) = self.duration.addingReportingOverflow(nanoseconds)
        self.duration = isTooMuch ? .max : sum
    }
}

extension Report.Phases {
    /// - Returns: `nil` if the time is longer than a phase can be: 71 minutes.
    fileprivate static func microseconds(_ nanoseconds: UInt64) -> UInt32? { UInt32(exactly: nanoseconds / 1_000) }

    fileprivate var sum: UInt64 {
        [self.dns, self.connect, self.tls, self.send, self.wait, self.receive].reduce(0) { $0 + UInt64($1 ?? 0) }
    }
}
