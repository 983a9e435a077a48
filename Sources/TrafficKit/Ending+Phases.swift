package import TrafficReport

extension Report.Ending {
    /// The ending of an exchange that is complete.
    package init(status: UInt16) {
        switch status {
        case 400..<500: self = .http4xx
        case 500...: self = .http5xx
        default: self = .ok
        }
    }
}

extension Report.Phases {
    /// Computes the phases from an exchange's times. `nil`: the exchange did not reach this point.
    package init(startedAt: UInt64, requestEndedAt: UInt64?, responseBeganAt: UInt64?, responseEndedAt: UInt64) {
        self.init()
        self.send = Self.microseconds(startedAt, requestEndedAt)
        self.wait = Self.microseconds(requestEndedAt, responseBeganAt)
        self.receive = Self.microseconds(responseBeganAt, responseEndedAt)
    }

    private static func microseconds(_ from: UInt64?, _ to: UInt64?) -> UInt32? {
        guard let from, let to else { return nil }
        return UInt32(clamping: (to - min(from, to)) / 1_000)
    }
}
