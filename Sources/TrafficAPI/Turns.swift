import Synchronization

/// Lets a few answers be made at once, while others wait. Payers take turns, and a payer has one turn at a time: whoever
/// asks for much waits for itself.
final class Turns: Sendable {
    private typealias Waiter = CheckedContinuation<Bool, Never>

    private struct State {
        var working: Set<Payer> = []
        /// Of each payer, first come, first served.
        var waiting: [Payer: [Waiter]] = [:]
        /// The payers that wait, in the order of their turns.
        var order: [Payer] = []
        var count = 0

        mutating func takeLast(of payer: Payer) -> Waiter? {
            guard let last = self.waiting[payer]?.popLast() else { return nil }
            self.count -= 1
            if self.waiting[payer]?.isEmpty == true {
                self.waiting[payer] = nil
                self.order.removeAll { $0 == payer }
            }
            return last
        }
    }

    private let atOnce: Int
    private let mostOfPayer: Int
    private let mostInAll: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - mostOfPayer: So many of one payer may wait.
    ///   - mostInAll: So many may wait. Then the last one of the payer with the most gives way.
    init(atOnce: Int, mostOfPayer: Int, mostInAll: Int) {
        (self.atOnce, self.mostOfPayer, self.mostInAll) = (atOnce, mostOfPayer, mostInAll)
    }

    /// Begins a turn if the payer need not wait. ``give(_:)`` ends it.
    func takeAtOnce(for payer: Payer) -> Bool {
        self.state.withLock { self.begin(payer, &$0) }
    }

    /// Waits for the payer's turn. ``give(_:)`` ends it.
    ///
    /// - Throws: ``Problem/tooManyRequests`` if too many wait.
    func take(for payer: Payer) async throws(Problem) {
        let isTurn: Bool = await withCheckedContinuation { (waiter: Waiter) in
            let (answer, surplus) = self.state.withLock { state in self.enter(waiter, of: payer, &state) }
            surplus?.resume(returning: false)
            if let answer { waiter.resume(returning: answer) }
        }
        guard isTurn else { throw .tooManyRequests }
    }

    private func begin(_ payer: Payer, _ state: inout State) -> Bool {
        state.working.count < self.atOnce && state.working.insert(payer).inserted
    }

    /// - Returns: Whether it is the payer's turn; `nil`: the waiter waits. And a waiter that gives way.
    private func enter(_ waiter: Waiter, of payer: Payer, _ state: inout State) -> (Bool?, Waiter?) {
        if self.begin(payer, &state) { return (true, nil) }
        let own = state.waiting[payer]?.count ?? 0
        guard own < self.mostOfPayer else { return (false, nil) }
        var surplus: Waiter?
        if state.count >= self.mostInAll {
            guard let most = state.waiting.max(by: { $0.value.count < $1.value.count }), most.value.count > own + 1
            else { return (false, nil) }
            surplus = state.takeLast(of: most.key)
        }
        if own == 0 { state.order.append(payer) }
        state.waiting[payer, default: []].append(waiter)
        state.count += 1
        return (nil, surplus)
    }

    /// Ends the payer's turn.
    func give(_ payer: Payer) {
        let next = self.state.withLock { state -> Waiter? in
            state.working.remove(payer)
            // One turn is free now, or this payer's own next one.
            guard let place = state.order.firstIndex(where: { !state.working.contains($0) }) else { return nil }
            let payer = state.order.remove(at: place)
            let next = state.waiting[payer]?.removeFirst()
            state.working.insert(payer)
            state.count -= 1
            if state.waiting[payer]?.isEmpty == false { state.order.append(payer) } else { state.waiting[payer] = nil }
            return next
        }
        next?.resume(returning: true)
    }

    /// How many wait.
    var waiting: Int { self.state.withLock { $0.count } }
}

/// The newest reading of those about which requests wait to be answered. If each request kept its own, many readings would
/// stay in memory.
final class AwaitedReading<Value: Sendable>: Sendable {
    private let state = Mutex<(newest: (value: Value, takenAt: UInt64)?, waiting: Int)>((nil, 0))

    /// Takes the request's own reading from it.
    ///
    /// - Parameter time: When a reading was taken.
    func enter(_ reading: inout Value?, _ time: (Value) -> UInt64) {
        guard let value = reading.take() else { preconditionFailure("no reading to wait with") }
        let takenAt = time(value)
        self.state.withLock { state in
            state.waiting += 1
            if state.newest.map({ $0.takenAt < takenAt }) ?? true { state.newest = (value, takenAt) }
        }
    }

    /// - Returns: A reading that is no older than the one entered with.
    func leave() -> Value? {
        self.state.withLock { state in
            state.waiting -= 1
            defer { if state.waiting == 0 { state.newest = nil } }
            return state.newest?.value
        }
    }
}
