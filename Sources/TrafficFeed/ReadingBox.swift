import Synchronization
public import TrafficDocuments
public import TrafficLimits
public import TrafficModel

/// What the counting thread tells its readers. It publishes here, and all readers read here.
public final class ReadingBox: ReadingSource {
    public let limits: [StatedLimit]
    public let readings: Newest<Reading>
    public let metrics: Newest<MetricsReading>
    private let found = Mutex<[DoctorReport.Check]>([])

    /// - Parameters:
    ///   - limits: For `doctor`.
    ///   - demand: Asks the publisher for a sweep. Called on any thread, must not wait. `nil` if the publisher can't be
    ///     asked: then the newest reading answers every request.
    public init(limits: [StatedLimit] = [], demand: (@Sendable () -> Void)? = nil) {
        self.limits = limits
        self.readings = Newest(demand: demand)
        self.metrics = Newest(demand: demand)
    }

    public var isReady: Bool { self.readings.isReady }

    public func fresh() async -> Reading? { await self.readings.fresh() }

    public var newest: Reading? { self.readings.latest }

    public func freshMetrics() async -> MetricsReading? { await self.metrics.fresh() }

    public func updates() -> AsyncStream<Reading> { self.readings.updates() }

    public func checks() -> [DoctorReport.Check] { self.found.withLock { $0 } }

    public func publish(checks: [DoctorReport.Check]) { self.found.withLock { $0 = checks } }

    /// Ends all streams: nothing more will be published. The last readings, if there are any, stay readable.
    public func finish() {
        self.readings.finish()
        self.metrics.finish()
    }
}
