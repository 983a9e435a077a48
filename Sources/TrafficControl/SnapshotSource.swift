import Synchronization
public import TrafficModel

/// Where the control API has its answers from. The daemon's is ``SnapshotBox``.
public protocol SnapshotSource: Sendable {
    /// The newest snapshot, whole. `nil` before the first.
    var latest: Snapshot? { get }

    /// One whose sweep began after this call; the newest where that takes too long, and then its time says so. `nil` before the first.
    func fresh() async -> Snapshot?

    /// The newest snapshot at once, if there is one, then each as it is published. Ends when nothing more will come.
    ///
    /// A reader that is slower than the snapshots come misses those in between; it never delays the publisher.
    func updates() -> AsyncStream<Snapshot>

    /// What `doctor` found, worth reading on its own.
    func checks() -> [DoctorReport.Check]
}

/// The one place where the capture side leaves a snapshot and all readers pick it up.
///
/// Publishing takes a lock for a few assignments, whatever the readers do. One thread publishes.
public final class SnapshotBox: SnapshotSource {
    private struct State {
        var latest: Snapshot?
        var checks: [DoctorReport.Check] = []
        var readers: [UInt64: AsyncStream<Snapshot>.Continuation] = [:]
        /// Whose requests wait for a sweep, by the order in which they came.
        var waiting: [UInt64: AsyncStream<Never>.Continuation] = [:]
        var nextReader: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let demand: (@Sendable () -> Void)?
    private let patience: Duration

    /// - Parameters:
    ///   - patience: How long a request waits for a sweep of its own.
    ///   - demand: Asks whoever publishes for a sweep, from any thread, and does not wait. `nil` where nobody can be asked: then the
    ///     newest snapshot answers everything.
    public init(patience: Duration = .seconds(2), demand: (@Sendable () -> Void)? = nil) {
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
        // Nothing comes but its end: from the publisher, from the clock, or because the task is cancelled.
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

    /// To be called before a sweep begins.
    ///
    /// - Returns: Which requests it answers, for ``publish(_:answering:isTick:)``: those that have come by now.
    public func beginSweep() -> UInt64 {
        self.state.withLock { $0.nextReader }
    }

    /// - Parameters:
    ///   - number: What ``beginSweep()`` returned.
    ///   - isTick: Whether it is one of the interval's. Streams have these alone, so that their pace does not depend on who else asks.
    public func publish(_ snapshot: Snapshot, answering number: UInt64 = 0, isTick: Bool = true) {
        let (readers, answered) = self.state.withLock { state in
            state.latest = snapshot
            return (isTick ? Array(state.readers.values) : [], state.waiting.filter { $0.key <= number })
        }
        for reader in readers { reader.yield(snapshot) }
        // Outside the lock: finishing calls onTermination, which takes it.
        for waiter in answered.values { waiter.finish() }
    }

    public func publish(checks: [DoctorReport.Check]) {
        self.state.withLock { $0.checks = checks }
    }

    /// Ends all streams: nothing more will be published. What was stays readable.
    public func finish() {
        let (readers, waiting) = self.state.withLock { state in
            state.isFinished = true
            return (Array(state.readers.values), Array(state.waiting.values))
        }
        // Outside the lock: finishing calls onTermination, which takes it.
        for reader in readers { reader.finish() }
        for waiter in waiting { waiter.finish() }
    }

    public func updates() -> AsyncStream<Snapshot> {
        let (stream, reader) = AsyncStream.makeStream(of: Snapshot.self, bufferingPolicy: .bufferingNewest(1))
        let (number, isFinished) = self.state.withLock { state in
            state.nextReader += 1
            if !state.isFinished { state.readers[state.nextReader] = reader }
            // Inside the lock, so that a snapshot published meanwhile comes after this one.
            if let latest = state.latest { reader.yield(latest) }
            return (state.nextReader, state.isFinished)
        }
        reader.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.readers.removeValue(forKey: number) }
        }
        if isFinished { reader.finish() }
        return stream
    }

    /// How many streams are being read: none leaks.
    package var readers: Int {
        self.state.withLock { $0.readers.count }
    }

    /// How many requests wait: none stays.
    package var waiting: Int {
        self.state.withLock { $0.waiting.count }
    }
}
