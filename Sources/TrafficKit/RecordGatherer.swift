import Synchronization
import TrafficReport

/// Writes records into a datagram, for the connections of one thread.
///
/// The parts of an exchange are held until the exchange ends, and then are one record. What is held when the datagrams
/// are sent goes with them, so that a reader sees early what goes on. All records of a connection must go to the same
/// gatherer.
final class RecordGatherer: Sendable {
    private struct State {
        /// `nil`: nothing was written since the last datagram. A gatherer without records keeps no memory.
        var writer: ReportWriter?
        var held = HeldRecords()
    }

    private let queue: DatagramQueue
    private let state = Mutex(State())

    init(_ queue: DatagramQueue) {
        self.queue = queue
    }

    /// - Returns: Whether a datagram is full.
    func take(_ batch: borrowing RecordBatch) -> Bool {
        self.state.withLock { state in
            var isFull = false
            let exchanges = batch.exchanges.span
            for index in exchanges.indices { isFull = self.take(exchanges[index], &state) || isFull }
            for connection in batch.connections {
                state.held.take(connection)
                if state.held.isFull { isFull = self.writeHeld(&state) || isFull }
            }
            return isFull
        }
    }

    @inline(__always)
    private func take(_ exchange: borrowing Report.Exchange, _ state: inout State) -> Bool {
        // Nearly all records are whole exchanges.
        if state.held.passes(exchange) { return self.write(exchange, &state) }
        if let whole = state.held.take(exchange) { return self.write(whole, &state) }
        return state.held.isFull ? self.writeHeld(&state) : false
    }

    /// Completes a datagram of all records.
    func flush() {
        self.state.withLock { state in
            _ = self.writeHeld(&state)
            if let writer = state.writer.take() { self.queue.append(writer) }
        }
    }

    /// Forgets the parts that wait for the rest of their exchange.
    func forgetHeld() { self.state.withLock { $0.held = HeldRecords() } }

    private func writeHeld(_ state: inout State) -> Bool {
        guard !state.held.isEmpty else { return false }
        var (held, isFull) = (HeldRecords(), false)
        swap(&held, &state.held)
        held.removeExchanges { isFull = self.write($0, &state) || isFull }
        held.removeConnections { isFull = self.write($0, &state) || isFull }
        // Its memory is used again.
        state.held = held
        return isFull
    }

    /// - Returns: Whether the record began another datagram.
    private func write(_ exchange: borrowing Report.Exchange, _ state: inout State) -> Bool {
        if state.writer == nil { state.writer = self.queue.makeWriter() }
        if state.writer!.append(exchange) { return false }
        self.complete(&state)
        // A single record always fits into an empty datagram.
        _ = state.writer!.append(exchange)
        return true
    }

    private func write(_ connection: Report.Connection, _ state: inout State) -> Bool {
        if state.writer == nil { state.writer = self.queue.makeWriter() }
        if state.writer!.append(connection) { return false }
        self.complete(&state)
        _ = state.writer!.append(connection)
        return true
    }

    private func complete(_ state: inout State) {
        if let writer = state.writer.take() { self.queue.append(writer) }
        state.writer = self.queue.makeWriter()
    }
}
