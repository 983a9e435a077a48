import TrafficModel
import TrafficView

/// What comes to the screen of `top`.
enum TopNews: Sendable {
    case snapshot(Snapshot)
    case minute(PastMinute)
    /// - Parameters:
    ///   - index: Of the snapshot in the recording.
    ///   - time: When it was taken, for people.
    case recorded(Snapshot, index: Int, time: String, for: Replay.Request)
    case lost(Failure)
}

/// From where it comes, in the background: from the daemon or from a recording.
protocol TopFeed: Sendable {
    /// The newest news since the last call.
    func takeNews() -> TopNews?

    /// Starts to read. Reads anew where `demand` has changed.
    func start(_ demand: Demand)

    /// No byte is written to the wake descriptor after this.
    func stop()
}
