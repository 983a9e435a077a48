import Synchronization

/// Limits the answers without an end: each takes the daemon some time at every interval.
final class StreamSlots: Sendable {
    /// A place for as long as this value lives.
    final class Slot: Sendable {
        private let slots: StreamSlots

        fileprivate init(_ slots: StreamSlots) { self.slots = slots }

        deinit { self.slots.taken.withLock { $0 -= 1 } }
    }

    private let limit: Int
    private let taken = Mutex(0)

    init(limit: Int) { self.limit = limit }

    /// - Throws: ``Problem`` if there is none.
    func take() throws(Problem) -> Slot {
        let isFree = self.taken.withLock { taken in
            guard taken < self.limit else { return false }
            taken += 1
            return true
        }
        guard isFree else { throw .tooManyStreams }
        return Slot(self)
    }
}
