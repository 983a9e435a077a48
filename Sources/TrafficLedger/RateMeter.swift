import TrafficModel

/// Bytes per second between the last two ticks.
struct RateMeter: Codable {
    /// Never falls: pending bytes may turn out to be another process's, and must not count twice.
    private var soFarAtLastTick = PayloadBytes()
    private(set) var rates = PayloadRates()

    mutating func tick(_ soFar: PayloadBytes, seconds: Double) {
        self.rates = PayloadRates(growth: soFar.growth(since: self.soFarAtLastTick), seconds: seconds)
        self.soFarAtLastTick = soFar.merged(with: self.soFarAtLastTick)
    }
}
