public import TrafficModel

/// Where readers of the daemon get snapshots: the control API, and whatever else comes. In the daemon this is a
/// ``SnapshotBox``.
public protocol SnapshotSource: Sendable {
    /// Whether there has been a snapshot: counting has begun.
    var isReady: Bool { get }

    /// A snapshot whose sweep began after this call. If the sweep takes too long, the snapshot of the sweep before: its
    /// time then shows that it is older. `nil` if that sweep made none, and before the first.
    func fresh() async -> Snapshot?

    /// A fresh snapshot at once, then each snapshot of a tick when it is published. The stream ends when no more
    /// snapshots will come.
    ///
    /// A reader that is too slow misses snapshots in between. A reader never delays the publisher.
    func updates() -> AsyncStream<Snapshot>

    /// What `doctor` found. Clients can read it without a snapshot.
    func checks() -> [DoctorReport.Check]

    /// What users may make the daemon keep. It does not change while the daemon runs.
    var limits: [DoctorReport.Limit] { get }
}
