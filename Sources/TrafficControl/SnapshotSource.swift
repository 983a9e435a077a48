import Synchronization
public import TrafficModel

/// Where the control API has its answers from. The daemon's is ``SnapshotBox``.
public protocol SnapshotSource: Sendable {
    /// The newest snapshot, whole. `nil` before the first.
    var latest: Snapshot? { get }

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
        var nextReader: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    public init() {}

    public var latest: Snapshot? {
        self.state.withLock { $0.latest }
    }

    public func checks() -> [DoctorReport.Check] {
        self.state.withLock { $0.checks }
    }

    public func publish(_ snapshot: Snapshot) {
        let readers = self.state.withLock { state in
            state.latest = snapshot
            return Array(state.readers.values)
        }
        for reader in readers { reader.yield(snapshot) }
    }

    public func publish(checks: [DoctorReport.Check]) {
        self.state.withLock { $0.checks = checks }
    }

    /// Ends all streams: nothing more will be published. What was stays readable.
    public func finish() {
        let readers = self.state.withLock { state in
            state.isFinished = true
            return Array(state.readers.values)
        }
        // Outside the lock: finishing calls onTermination, which takes it.
        for reader in readers { reader.finish() }
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
}
