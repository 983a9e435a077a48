import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them, without ever making the caller wait.
///
/// Records wait for at most ``delay``, or until a datagram is full. A daemon's queue holds few datagrams (`net.unix.max_dgram_qlen`): those that
/// find it full wait for the next time, up to ``backlog``. Where there is no daemon nothing is gathered either, until ``retryNanoseconds`` have
/// passed: then the next record tries again. Once there has been none for ``patienceNanoseconds``, what begins need not
/// be counted (``hasDaemon``).
///
/// All threads of a server report here. So that none of them waits for what another one sends, gathering and sending have a lock each, and
/// whoever finds the second one taken leaves the sending to the other.
final class ReportSender: Sendable {
    static let delay = Duration.milliseconds(100)
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// An app may start before the daemon, and a daemon be restarted: so long is it taken to be there.
    static let patienceNanoseconds: UInt64 = 10_000_000_000
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
    /// Since when there has been no daemon, as far as anybody knows, and at first since the start; 0: there is one.
    private let missingSince: Atomic<UInt64>
    /// When it is looked for again. Connections that nobody listens to ask whenever something comes: none of them waits for another.
    private let nextLook = Atomic<UInt64>(0)

    init(path: String, clock: @escaping @Sendable () -> UInt64 = TrafficClock.nanoseconds) {
        self.path = path
        self.clock = clock
        self.missingSince = Atomic(clock())
    }

    /// Records that never reached a daemon that was there: it did not keep up.
    var droppedRecords: UInt32 { self.gathered.withLock { $0.droppedRecords } }

    /// Whether a daemon is there, or has been missing for less than ``patienceNanoseconds``.
    ///
    /// It is looked for at most once in ``retryNanoseconds``.
    var hasDaemon: Bool {
        let now = self.clock()
        let next = self.nextLook.load(ordering: .relaxed)
        if now >= next,
            self.nextLook.compareExchange(
                expected: next,
                desired: now + Self.retryNanoseconds,
                ordering: .relaxed
            ).exchanged
        {
            self.note(isThere: ReportSocket.isDaemon(at: self.path), at: now)
        }
        let since = self.missingSince.load(ordering: .relaxed)
        return since == 0 || now < since + Self.patienceNanoseconds
    }

    private func note(isThere: Bool, at now: UInt64) {
        if !isThere {
            _ = self.missingSince.compareExchange(expected: 0, desired: now, ordering: .relaxed)
        } else if self.missingSince.exchange(0, ordering: .relaxed) != 0 {
            // Who found it missing a moment ago has said that nobody need try.
            self.gathered.withLock { $0.quietUntil = 0 }
        }
    }

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
            let now = self.clock()
            let header = Report.Header(
                sequence: datagram.sequence,
                droppedRecords: self.droppedRecords,
                sentAt: now
            )
            // A process without a descriptor to spare may have one the next time.
            let outcome = datagram.writer.send(header) { socket?.send($0, to: self.path) } ?? .full
            self.note(isThere: outcome != .absent, at: now)
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
