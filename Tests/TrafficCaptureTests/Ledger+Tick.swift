import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension Ledger {
    /// Ends a round of a capture's observations, now.
    mutating func tick(_ capture: BPFCapture) -> Reading {
        self.absorb(HostFacts.tick())
        return self.reading(
            countingSince: .now,
            host: HostFacts.description(),
            daemon: HostFacts.daemon(version: "test"),
            capture: capture.status
        )
    }
}
