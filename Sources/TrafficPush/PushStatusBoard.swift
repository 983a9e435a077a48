import Synchronization
public import TrafficDocuments
import TrafficModel

/// How the deliveries to all destinations go, for whoever wants to know.
public final class PushStatusBoard: Sendable {
    private let statuses: Mutex<[PushStatus]>

    public init(_ destinations: [PushDestination]) {
        // Several of one host are told apart, because metrics must be.
        var count: [String: Int] = [:]
        self.statuses = Mutex(
            destinations.map { destination in
                let number = count[destination.name, default: 0] + 1
                count[destination.name] = number
                return PushStatus(destination: destination.name + (number > 1 ? " \(number)" : ""))
            }
        )
    }

    public var all: [PushStatus] { self.statuses.withLock { $0 } }

    func note(_ counts: PushSpool.Counts, of index: Int) {
        self.change(index) { ($0.waiting, $0.dropped) = (counts.waiting, counts.dropped) }
    }

    /// - Parameter index: Of the destination.
    func change(_ index: Int, _ body: (inout PushStatus) -> Void) {
        self.statuses.withLock { body(&$0[index]) }
    }
}
