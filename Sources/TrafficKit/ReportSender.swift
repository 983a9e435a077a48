import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them, without ever making the caller wait.
///
/// Records wait for at most ``delay``, or until a datagram is full. Where there is no daemon nothing is gathered either, until ``retry``
/// has passed: then the next record tries again.
final class ReportSender: Sendable {
    static let delay = Duration.milliseconds(100)
    static let retryNanoseconds: UInt64 = 1_000_000_000

    private struct State: ~Copyable {
        var writer = ReportWriter()
        var socket: ReportSocket?
        var header = Report.Header()
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
        guard isFirst else { return }
        Task.detached(priority: .utility) {
            try? await Task.sleep(for: Self.delay)
            self.flush()
        }
    }

    /// Sends what is there.
    func flush() {
        self.state.withLock { state in
            state.isFlushDue = false
            self.flush(&state)
        }
    }

    private func flush(_ state: inout State) {
        guard !state.writer.isEmpty else { return }
        let count = UInt32(state.writer.count)
        if state.socket == nil { state.socket = ReportSocket() }
        state.header.sentAt = self.clock()
        let path = self.path
        let outcome = Self.finish(&state, path)
        state.header.sequence &+= 1
        switch outcome {
        case .sent: break
        case .full: state.header.droppedRecords &+= count
        case .absent: state.quietUntil = state.header.sentAt + Self.retryNanoseconds
        }
    }

    private static func finish(_ state: inout State, _ path: String) -> ReportSocket.Outcome {
        guard let socket = state.socket.take() else {
            state.writer.finish(state.header) { _ in }
            return .full
        }
        let outcome = state.writer.finish(state.header) { socket.send($0, to: path) }
        state.socket = consume socket
        return outcome
    }
}
