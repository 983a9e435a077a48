import Synchronization

/// Holds the newest reading of one kind. The capture side publishes each reading here, and all readers read it here.
///
/// Publishing holds a lock for a few assignments only, whatever the readers do. Only one thread publishes.
public final class Newest<Value: Sendable>: Sendable {
    private struct State {
        var isReady = false
        /// `nil` if nobody asked for a reading of the last sweep.
        var latest: Value?
        /// A request had to go without a reading. The next sweep makes one, for the request after it.
        var isOwed = false

        var isAwaited: Bool { !self.isReady || self.isOwed || !self.readers.isEmpty || !self.waiting.isEmpty }
        var readers: [UInt64: AsyncStream<Value>.Continuation] = [:]
        /// The readers that wait for their first reading: the next one whose sweep begins after they came, whatever
        /// causes it.
        var newReaders: Set<UInt64> = []
        /// Requests that wait for a sweep, numbered in the order in which they came.
        var waiting: [UInt64: AsyncStream<Value>.Continuation] = [:]
        var nextReader: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let demand: (@Sendable () -> Void)?
    private let patience: Duration
    /// How many times its patience a request waits if no sweep made a reading meanwhile.
    private static var mostWaits: Int { 10 }

    /// - Parameters:
    ///   - patience: How long a request waits for its sweep. Longer, if there is no older reading to answer with.
    ///   - demand: Asks the publisher for a sweep. Called on any thread, must not wait. `nil` if the publisher can't be
    ///     asked: then the newest reading answers every request.
    public init(
        patience: Duration = .seconds(2),
        demand: (@Sendable () -> Void)? = nil
    ) {
        self.patience = patience
        self.demand = demand
    }

    /// Whether a sweep has ended: counting has begun.
    public var isReady: Bool {
        self.state.withLock { $0.isReady }
    }

    /// The reading of the last sweep, if the sweep made one.
    package var latest: Value? {
        self.state.withLock { $0.latest }
    }

    /// A reading whose sweep began after this call. If the sweep takes too long, the reading of the sweep before: its
    /// time then shows that it is older. `nil` if that sweep made none, and before the first.
    public func fresh() async -> Value? {
        guard let demand, self.isReady else { return self.latest }
        // The publisher gives the stream its only element. Otherwise the stream ends without one: by the clock, by
        // finish(), or because the task is cancelled. The reading comes with the stream, because a later sweep may drop
        // ``latest`` before this task runs again.
        let (swept, waiter) = AsyncStream.makeStream(of: Value.self)
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
        let clock = Task { [weak self, patience] in
            // An older reading is better than none, and is then the answer.
            var waits = 0
            repeat {
                try? await Task.sleep(for: patience)
                waits += 1
            } while self?.latest == nil && waits < Self.mostWaits && !Task.isCancelled
            waiter.finish()
        }
        defer { clock.cancel() }
        for await reading in swept { return reading }
        return self.state.withLock { state in
            state.isOwed = state.isOwed || state.latest == nil
            return state.latest
        }
    }

    /// Call this before a sweep begins.
    ///
    /// - Returns: The number of the last request that the sweep answers, for ``publish(_:answering:isTick:)``. The
    ///   sweep answers all requests that have come by now.
    public func beginSweep() -> UInt64 {
        self.state.withLock { $0.nextReader }
    }

    /// Whether somebody waits for a reading or reads a stream. If not, the publisher calls ``publishNothing()``: a
    /// reading of many sockets takes long to make, and much memory.
    public var isAwaited: Bool {
        self.state.withLock { $0.isAwaited }
    }

    /// Whether somebody asked, and not only nothing was published yet.
    public var isAsked: Bool {
        self.state.withLock { $0.isOwed || !$0.readers.isEmpty || !$0.waiting.isEmpty }
    }

    /// Drops the reading of the sweep before, which grows old.
    public func publishNothing() {
        self.state.withLock { state in
            state.latest = nil
            state.isReady = true
        }
    }

    /// - Parameters:
    ///   - number: What ``beginSweep()`` returned.
    ///   - isTick: Whether the interval caused this reading. Streams get only these readings, so that other clients'
    ///     requests do not change the pace of a stream.
    public func publish(_ reading: Value, answering number: UInt64 = 0, isTick: Bool = true) {
        let (readers, answered) = self.state.withLock { state in
            state.latest = reading
            state.isReady = true
            state.isOwed = false
            let readers = state.readers.filter { state.newReaders.contains($0.key) ? $0.key <= number : isTick }
            state.newReaders = state.newReaders.filter { $0 > number }
            return (Array(readers.values), state.waiting.filter { $0.key <= number })
        }
        for reader in readers { reader.yield(reading) }
        // Outside the lock: `finish()` calls `onTermination`, which takes the lock.
        for waiter in answered.values {
            waiter.yield(reading)
            waiter.finish()
        }
    }

    /// Ends all streams: nothing more will be published. The last reading, if there is one, stays readable.
    public func finish() {
        let (readers, waiting) = self.state.withLock { state in
            state.isFinished = true
            return (Array(state.readers.values), Array(state.waiting.values))
        }
        // Outside the lock: `finish()` calls `onTermination`, which takes the lock.
        for reader in readers { reader.finish() }
        for waiter in waiting { waiter.finish() }
    }

    /// A fresh reading at once, then each reading of a tick when it is published. The stream ends when no more
    /// readings will come.
    ///
    /// A reader that is too slow misses readings in between. A reader never delays the publisher.
    public func updates() -> AsyncStream<Value> {
        let (stream, reader) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(1))
        let (number, isFinished) = self.state.withLock { state in
            state.nextReader += 1
            if !state.isFinished {
                state.readers[state.nextReader] = reader
                if self.demand != nil { state.newReaders.insert(state.nextReader) }
            }
            // Inside the lock, so that a reading that is published meanwhile comes after this reading.
            if let latest = state.latest, self.demand == nil || state.isFinished { reader.yield(latest) }
            return (state.nextReader, state.isFinished)
        }
        reader.onTermination = { [weak self] _ in
            self?.state.withLock {
                $0.readers[number] = nil
                $0.newReaders.remove(number)
            }
        }
        if isFinished { reader.finish() } else { self.demand?() }
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
