import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them, without ever making the caller wait.
///
/// Records wait for at most ``delay``, or until a datagram is full. A daemon's queue holds few datagrams (`net.unix.max_dgram_qlen`): those that
/// find it full wait for the next time, up to ``backlog``. Where there is no daemon nothing is gathered either, until ``retryNanoseconds`` have
/// passed: then the next record tries again.
///
/// All threads of a server report here. So that none of them waits for what another one sends, gathering and sending have a lock each, and
/// whoever finds the second one taken leaves the sending to the other.
final class ReportSender: Sendable {
    static let delay = Duration.milliseconds(100)
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// Datagrams.
    static let backlog = 32

    /// One that is complete.
    private struct Datagram: Sendable {
        var writer: ReportWriter
        let sequence: UInt32
    }

    private struct Gathered {
        var writer = ReportWriter()
        /// To be sent, oldest first.
        var complete: [Datagram] = []
        /// Memory of one that was sent.
        var spare: ReportWriter?
        var sequence: UInt32 = 0
        var droppedRecords: UInt32 = 0
        var isFlushDue = false
        /// No daemon before this time.
        var quietUntil: UInt64 = 0

        /// What was gathered becomes a datagram, if there is room for one more.
        mutating func complete(_ backlog: Int) {
            guard !self.writer.isEmpty else { return }
            if self.complete.count < backlog {
                let next = self.spare.take() ?? ReportWriter()
                self.complete.append(Datagram(writer: self.writer, sequence: self.sequence))
                self.writer = next
            } else {
                self.droppedRecords &+= UInt32(self.writer.count)
                self.writer.removeAll()
            }
            self.sequence &+= 1
        }
    }

    private let path: String
    private let clock: @Sendable () -> UInt64
    private let gathered = Mutex(Gathered())
    /// Held by whoever sends: datagrams go one after the other.
    private let socket = Mutex<ReportSocket?>(nil)

    init(path: String, clock: @escaping @Sendable () -> UInt64 = TrafficClock.nanoseconds) {
        self.path = path
        self.clock = clock
    }

    /// Records that never reached a daemon that was there: it did not keep up.
    var droppedRecords: UInt32 { self.gathered.withLock { $0.droppedRecords } }

    func send(_ records: [Report.Record]) {
        let now = self.clock()
        let (isComplete, isFirst) = self.gathered.withLock { gathered in
            guard now >= gathered.quietUntil else { return (false, false) }
            var isComplete = false
            var next = gathered.writer.append(contentsOf: records)
            while next < records.count {
                gathered.complete(Self.backlog)
                isComplete = true
                // One is never larger than a datagram.
                next = max(next + 1, gathered.writer.append(contentsOf: records, from: next))
            }
            defer { gathered.isFlushDue = true }
            return (isComplete, !gathered.isFlushDue)
        }
        if isComplete { _ = self.socket.withLockIfAvailable { self.transmit(&$0) } }
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
        self.gathered.withLock { $0.complete(Self.backlog) }
        self.socket.withLock { self.transmit(&$0) }
        let isWaiting = self.gathered.withLock { gathered in
            gathered.isFlushDue = !gathered.complete.isEmpty || !gathered.writer.isEmpty
            return gathered.isFlushDue
        }
        if isWaiting { self.flushLater() }
    }

    private func transmit(_ socket: inout ReportSocket?) {
        if socket == nil { socket = ReportSocket() }
        while var datagram = self.gathered.withLock({ $0.complete.isEmpty ? nil : $0.complete.removeFirst() }) {
            let header = Report.Header(
                sequence: datagram.sequence,
                droppedRecords: self.droppedRecords,
                sentAt: self.clock()
            )
            // A process without a descriptor to spare may have one the next time.
            let outcome = datagram.writer.send(header) { socket?.send($0, to: self.path) } ?? .full
            switch outcome {
            case .sent:
                datagram.writer.removeAll()
                self.gathered.withLock { $0.spare = datagram.writer }
            case .full: return self.gathered.withLock { $0.complete.insert(datagram, at: 0) }
            case .absent:
                // What waited was for a daemon that is gone.
                return self.gathered.withLock { gathered in
                    gathered.complete = []
                    gathered.quietUntil = self.clock() + Self.retryNanoseconds
                }
            }
        }
    }
}
