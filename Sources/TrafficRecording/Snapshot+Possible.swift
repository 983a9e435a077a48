import TrafficModel

extension Snapshot {
    /// Whether all numbers are such as a machine can have. Anybody may make a file, and who adds up and prints what a daemon
    /// says expects nothing else.
    var isPossible: Bool {
        let processes = self.processes ?? []
        var rates = [self.totals.rates] + processes.map(\.rates) + (self.sockets ?? []).map(\.rates)
        rates += (self.interfaces ?? []).map {
            PayloadRates(sent: $0.sentBytesPerSecond ?? 0, received: $0.receivedBytesPerSecond ?? 0)
        }
        let counts = processes.map(\.socketsOpen) + (self.exited ?? []).map(\.processes) + [self.socketsUnlisted ?? 0]
        return self.takenBoottimeNanoseconds <= Self.mostNanoseconds
            && rates.allSatisfy { Self.rates.contains($0.sent) && Self.rates.contains($0.received) }
            && counts.allSatisfy { Self.counts.contains($0) }
    }

    /// 146 years.
    private static let mostNanoseconds: UInt64 = 1 << 62
    /// Bytes in a second.
    private static let rates: ClosedRange<Double> = 0...1e18
    private static let counts = 0...1_000_000_000
}
