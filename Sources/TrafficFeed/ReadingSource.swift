public import TrafficDocuments
public import TrafficLimits
public import TrafficModel

/// Where readers of the daemon get readings: the control API, and whatever else comes. In the daemon this is a
/// ``ReadingBox``.
public protocol ReadingSource: Sendable {
    /// Whether there has been a reading: counting has begun.
    var isReady: Bool { get }

    /// A reading whose sweep began after this call. If the sweep takes too long, the reading of the sweep before: its
    /// time then shows that it is older. `nil` if that sweep made none, and before the first.
    func fresh() async -> Reading?

    /// The reading of the last sweep, if the sweep made one. With a reader of ``updates()`` each does.
    var newest: Reading? { get }

    /// What monitoring systems get, as fresh as ``fresh()``.
    func freshMetrics() async -> MetricsReading?

    /// A fresh reading at once, then each reading of a tick when it is published. The stream ends when no more
    /// readings will come.
    ///
    /// A reader that is too slow misses readings in between. A reader never delays the publisher.
    func updates() -> AsyncStream<Reading>

    /// What `doctor` found. Clients can read it without a reading.
    func checks() -> [DoctorReport.Check]

    /// What users may make the daemon keep. It does not change while the daemon runs.
    var limits: [StatedLimit] { get }
}
