import Synchronization

/// A clock that stands still until a test advances it.
public final class TestClock: Sendable {
    private let time = Mutex<UInt64>(5_000_000_000)

    public init() {}

    /// Nanoseconds.
    public var now: UInt64 { self.time.withLock { $0 } }

    public func advance(by nanoseconds: UInt64) {
        self.time.withLock { $0 += nanoseconds }
    }
}
