import Synchronization
import TestSupport
import TrafficAPI
import TrafficDocuments
import TrafficModel

/// Ends at once, or where the test holds it like a measurement that takes its time, and counts its calls.
final class FakeMeter: CostSource {
    private struct State {
        var isHeld = false
        var underWay = 0
        var most = 0
        var measurements = 0
        var cancelled = 0
        var failure: CostError?
    }

    private let state = Mutex(State())

    var underWay: Int { self.state.withLock { $0.underWay } }
    /// The largest number of measurements that ran at once.
    var most: Int { self.state.withLock { $0.most } }
    /// The number of measurements that began.
    var measurements: Int { self.state.withLock { $0.measurements } }
    var cancelled: Int { self.state.withLock { $0.cancelled } }

    /// Whether measurements wait. Those that wait when this becomes `false` end.
    var isHeld: Bool {
        get { self.state.withLock { $0.isHeld } }
        set { self.state.withLock { $0.isHeld = newValue } }
    }

    var failure: CostError? {
        get { self.state.withLock { $0.failure } }
        set { self.state.withLock { $0.failure = newValue } }
    }

    static func cost(seconds: Double) -> CaptureCost {
        let growth = ProgramCounters(runs: 10, nanoseconds: 1000)
        return CaptureCost(
            seconds: seconds,
            programs: [CaptureCost.Program(name: "p", hook: "tp_btf/p", growth: growth, seconds: seconds)],
            statisticsWereOn: false,
            emptyProgramNanoseconds: 20,
            statisticsNanoseconds: 30
        )
    }

    func cost(over time: Duration) async throws -> CaptureCost {
        if let failure = self.failure { throw failure }
        self.state.withLock { state in
            state.measurements += 1
            state.underWay += 1
            state.most = max(state.most, state.underWay)
        }
        defer { self.state.withLock { $0.underWay -= 1 } }
        do {
            while self.isHeld { try await Task.sleep(for: .milliseconds(5)) }
            try Task.checkCancellation()
        } catch {
            self.state.withLock { $0.cancelled += 1 }
            throw error
        }
        return Self.cost(seconds: time / .seconds(1))
    }
}
