import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them, without ever making the caller wait.
///
/// Records wait for at most ``delay``, or until a datagram is full. A daemon's queue holds few datagrams (`net.unix.max_dgram_qlen`): those that
/// find it full wait for the next time, up to ``backlog``. Where there is no daemon nothing is gathered either, until ``retryNanoseconds`` have
/// passed: then the next record tries again.
final class ReportSender: Sendable {
    static let delay = Duration.milliseconds(100)
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// Datagrams.
    static let backlog = 32

    /// A datagram that found the daemon's queue full.
    private struct Waiting {
        var bytes: [UInt8]
        var records: UInt32
    }

    private struct State: ~Copyable {
        var writer = ReportWriter()
        var socket: ReportSocket?
        var header = Report.Header()
        /// Oldest first.
        var waiting: [Waiting] = []
        var isFlushDue = false
        /// No daemon before this time.
        var quietUntil: UInt64 = 0
    }

    private let path: String
    private let clock: @Sendable () -> UInt64
    private let state = Mutex(State())

    init(path: String, clock: @escaping @Sendable () -> UInt64 = TrafficClock.nanoseconds) {
        self.path = path
        self.clock = clock
    }

    /// Records that never reached a daemon that was there: it did not keep up.
    var droppedRecords: UInt32 { self.state.withLock { $0.header.droppedRecords } }

    func send(_ record: Report.Record) {
        let now = self.clock()
        let isFirst = self.state.withLock { state in
            guard now >= state.quietUntil else { return false }
            if !state.writer.append(record) {
                self.flush(&state)
                // One record is never larger than a datagram.
                guard now >= state.quietUntil, state.writer.append(record) else { return false }
            }
            defer { state.isFlushDue = true }
            return !state.isFlushDue
        }
        if isFirst { self.flushLater() }
    }

    private func flushLater() {
        Task.detached(priority: .utility) {
            try? await Task.sleep(for: Self.delay)
            self.flush()
        }
    }

    /// Sends what is there.
    func flush() {
        let isWaiting = self.state.withLock { state in
            self.flush(&state)
            state.isFlushDue = !state.waiting.isEmpty
            return state.isFlushDue
        }
        if isWaiting { self.flushLater() }
    }

    private func flush(_ state: inout State) {
        if state.socket == nil { state.socket = ReportSocket() }
        self.sendWaiting(&state)
        guard !state.writer.isEmpty else { return }
        let records = UInt32(state.writer.count)
        state.header.sentAt = self.clock()
        let path = self.path
        // In order: behind what waits this one waits, too.
        let isBehind = !state.waiting.isEmpty
        guard let socket = state.socket.take() else {
            state.writer.finish(state.header) { _ in }
            state.header.sequence &+= 1
            state.header.droppedRecords &+= records
            return
        }
        let (outcome, bytes) = state.writer.finish(state.header) { datagram in
            let outcome = isBehind ? .full : socket.send(datagram, to: path)
            return (outcome, outcome == .full ? datagram.indices.map { datagram[$0] } : [])
        }
        state.socket = consume socket
        state.header.sequence &+= 1
        switch outcome {
        case .sent: break
        case .full where state.waiting.count < Self.backlog:
            state.waiting.append(Waiting(bytes: bytes, records: records))
        case .full: state.header.droppedRecords &+= records
        case .absent: self.giveUp(&state)
        }
    }

    private func sendWaiting(_ state: inout State) {
        var sent = 0
        for datagram in state.waiting {
            guard let outcome = state.socket?.send(datagram.bytes.span, to: self.path), outcome != .full else { break }
            if outcome == .absent { return self.giveUp(&state) }
            sent += 1
        }
        state.waiting.removeFirst(sent)
    }

    /// No daemon: what waited was for one that is gone.
    private func giveUp(_ state: inout State) {
        state.waiting = []
        state.quietUntil = self.clock() + Self.retryNanoseconds
    }
}
