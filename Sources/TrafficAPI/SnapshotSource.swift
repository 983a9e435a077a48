import Synchronization
public import TrafficModel

/// Gives the control API its answers. In the daemon this is a ``SnapshotBox``.
public protocol SnapshotSource: Sendable {
    /// The newest snapshot, complete. `nil` before the first.
    var latest: Snapshot? { get }

    /// A snapshot whose sweep began after this call. If the sweep takes too long, the newest snapshot: its time then
    /// shows that it is older. `nil` before the first.
    func fresh() async -> Snapshot?

    /// The newest snapshot at once, if there is a snapshot, then each snapshot when it is published. The stream ends
    /// when no more snapshots will come.
    ///
    /// A reader that is too slow misses snapshots in between. A reader never delays the publisher.
    func updates() -> AsyncStream<Snapshot>

    /// What `doctor` found. Clients can read it without a snapshot.
    func checks() -> [DoctorReport.Check]

    /// What users may make the daemon keep. It does not change while the daemon runs.
    var limits: [DoctorReport.Limit] { get }
}

/// Holds the newest snapshot. The capture side publishes each snapshot here, and all readers read it here.
///
/// Publishing holds a lock for a few assignments only, whatever the readers do. Only one thread publishes.
public final class SnapshotBox: SnapshotSource {
    private struct State {
        var latest: Snapshot?
        var checks: [DoctorReport.Check] = []
        var readers: [UInt64: AsyncStream<Snapshot>.Continuation] = [:]
        /// Requests that wait for a sweep, numbered in the order in which they came.
        var waiting: [UInt64: AsyncStream<Never>.Continuation] = [:]
        var nextReader: UInt64 = 0
        var isFinished = false
    }

    public let limits: [DoctorReport.Limit]
    private let state = Mutex(State())
    private let demand: (@Sendable () -> Void)?
    private let patience: Duration

    /// - Parameters:
    ///   - limits: For `doctor`.
    ///   - patience: How long a request waits for its sweep.
    ///   - demand: Asks the publisher for a sweep. Called on any thread, must not wait. `nil` if the publisher can't be
    ///     asked: then the newest snapshot answers every request.
    public init(
        limits: [DoctorReport.Limit] = [],
        patience: Duration = .seconds(2),
        demand: (@Sendable () -> Void)? = nil
    ) {
        self.limits = limits
        self.patience = patience
        self.demand = demand
    }

    public var latest: Snapshot? {
        self.state.withLock { $0.latest }
    }

    public func checks() -> [DoctorReport.Check] {
        self.state.withLock { $0.checks }
    }

    public func fresh() async -> Snapshot? {
        guard let demand, self.latest != nil else { return self.latest }
        // The stream has no elements, it only ends: by the publisher, by the clock, or because the task is cancelled.
        let (swept, waiter) = AsyncStream.makeStream(of: Never.self)
        let number = self.state.withLock { state -> UInt64? in
            guard !state.isFinished else { return nil }
            state.nextReader += 1
            state.waiting[state.nextReader] = waiter
            return state.nextReader
        }
        guard let number else { return self.latest }
        waiter.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.waiting.removeValue(forKey: number) }
        }
        demand()
        let clock = Task { [patience] in
            try? await Task.sleep(for: patience)
            waiter.finish()
        }
        for await _ in swept {}
        clock.cancel()
        return self.latest
    }

    /// Call this before a sweep begins.
    ///
    /// - Returns: The number of the last request that the sweep answers, for ``publish(_:answering:isTick:)``. The
    ///   sweep answers all requests that have come by now.
    public func beginSweep() -> UInt64 {
        self.state.withLock { $0.nextReader }
    }

    /// - Parameters:
    ///   - number: What ``beginSweep()`` returned.
    ///   - isTick: Whether the interval caused this snapshot. Streams get only these snapshots, so that other clients'
    ///     requests do not change the pace of a stream.
    public func publish(_ snapshot: Snapshot, answering number: UInt64 = 0, isTick: Bool = true) {
        let (readers, answered) = self.state.withLock { state in
            state.latest = snapshot
            return (isTick ? Array(state.readers.values) : [], state.waiting.filter { $0.key <= number })
        }
        for reader in readers { reader.yield(snapshot) }
        // Outside the lock: `finish()` calls `onTermination`, which takes the lock.
        for waiter in answered.values { waiter.finish() }
    }

    public func publish(checks: [DoctorReport.Check]) {
        self.state.withLock { $0.checks = checks }
    }

    /// Ends all streams: nothing more will be published. The last snapshot stays readable.
    public func finish() {
        let (readers, waiting) = self.state.withLock { state in
            state.isFinished = true
            return (Array(state.readers.values), Array(state.waiting.values))
        }
        // Outside the lock: `finish()` calls `onTermination`, which takes the lock.
        for reader in readers { reader.finish() }
        for waiter in waiting { waiter.finish() }
    }

    public func updates() -> AsyncStream<Snapshot> {
        let (stream, reader) = AsyncStream.makeStream(of: Snapshot.self, bufferingPolicy: .bufferingNewest(1))
        let (number, isFinished) = self.state.withLock { state in
            state.nextReader += 1
            if !state.isFinished { state.readers[state.nextReader] = reader }
            // Inside the lock, so that a snapshot that is published meanwhile comes after this snapshot.
            if let latest = state.latest { reader.yield(latest) }
            return (state.nextReader, state.isFinished)
        }
        reader.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.readers.removeValue(forKey: number) }
        }
        if isFinished { reader.finish() }
        return stream
    }

    /// The number of streams that are being read. A stream that has ended does not count.
    package var readers: Int {
        self.state.withLock { $0.readers.count }
    }

    /// The number of requests that wait. An answered request does not count.
    package var waiting: Int {
        self.state.withLock { $0.waiting.count }
    }
}
