import Synchronization
public import TrafficModel

/// How the deliveries to all destinations go, for whoever wants to know.
public final class PushStatusBoard: Sendable {
    private let statuses: Mutex<[PushStatus]>

    public init(_ destinations: [PushDestination]) {
        self.statuses = Mutex(destinations.map { PushStatus(destination: $0.name) })
    }

    public var all: [PushStatus] { self.statuses.withLock { $0 } }

    /// - Parameter index: Of the destination.
    func change(_ index: Int, _ body: (inout PushStatus) -> Void) {
        self.statuses.withLock { body(&$0[index]) }
    }
}
