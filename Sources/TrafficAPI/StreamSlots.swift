import Synchronization

/// Limits the answers without an end: each takes the daemon some time at every interval. If there are too many, the oldest
/// one of the payer with the most ends, for a payer that has fewer. Those of administrators do not count.
final class StreamSlots: Sendable {
    /// A place for as long as this value lives.
    final class Slot: Sendable {
        private let slots: StreamSlots
        private let number: UInt64

        fileprivate init(_ slots: StreamSlots, _ number: UInt64) { (self.slots, self.number) = (slots, number) }

        deinit { self.slots.state.withLock { [number] in $0.taken[number] = nil } }
    }

    private struct Stream {
        let payer: Payer
        /// Ends the stream.
        let end: @Sendable () -> Void
    }

    private struct State {
        /// Later ones have higher numbers.
        var taken: [UInt64: Stream] = [:]
        var last: UInt64 = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    /// - Parameter end: Ends the stream that gets the slot.
    /// - Throws: ``Problem`` if there is none.
    func take(for payer: Payer, end: @escaping @Sendable () -> Void) throws(Problem) -> Slot {
        let (number, surplus) = self.state.withLock { state -> (UInt64?, Stream?) in
            var surplus: Stream?
            if payer != .administrators, state.taken.values.count(where: { $0.payer != .administrators }) >= self.limit
            {
                guard let first = self.surplus(for: payer, state) else { return (nil, nil) }
                surplus = state.taken.removeValue(forKey: first)
            }
            state.last += 1
            state.taken[state.last] = Stream(payer: payer, end: end)
            return (state.last, surplus)
        }
        surplus?.end()
        guard let number else { throw .tooManyStreams }
        return Slot(self, number)
    }

    private func surplus(for payer: Payer, _ state: State) -> UInt64? {
        var counts: [Payer: Int] = [:]
        for stream in state.taken.values where stream.payer != .administrators { counts[stream.payer, default: 0] += 1 }
        guard let most = counts.max(by: { $0.value < $1.value }),
            most.value > counts[payer, default: 0] + 1
        else { return nil }
        return state.taken.filter { $0.value.payer == most.key }.keys.min()
    }
}
