public import TrafficDocuments
import TrafficModel

/// Where readers ask which alerts are in force, and follow them. In the daemon this is what watches over the rules.
public protocol AlertSource: Sendable {
    /// As of the last sample, a few seconds ago.
    func alerts() -> AlertReport

    /// Where a stream begins.
    ///
    /// - Parameter position: Where the follower is. `nil`: it wants only what comes.
    func beginning(after position: AlertPosition?) -> AlertNotice

    /// The kept changes after this number, the oldest first. Each says how many are missing before it.
    func notices(after number: UInt64) -> [AlertNotice]

    /// Has an element now and after each change. Elements that nobody took in time become one.
    func news() -> AsyncStream<Void>
}
