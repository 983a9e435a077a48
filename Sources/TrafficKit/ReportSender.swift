import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them. The caller never waits.
///
/// The parts of an exchange are held until the exchange ends, and then are one record. What is held when the datagrams
/// are sent goes with them, so that a reader sees early what goes on.
///
/// Records wait for at most ``delay``, or until a datagram is full. A daemon's queue holds few datagrams
/// (`net.unix.max_dgram_qlen`). Datagrams that find the queue full wait for the next time, up to ``backlog``. If there
/// is no daemon, the sender gathers nothing until ``retryNanoseconds`` have passed; then the next record tries again.
/// Once there has been no daemon for ``patienceNanoseconds``, new connections and exchanges need not be counted
/// (``hasDaemon``).
///
/// All threads of a server report here. So that no thread waits while another thread sends, gathering and sending have
/// a lock each. A thread that finds the lock for sending taken leaves its datagrams to the thread that holds it.
final class ReportSender: Sendable {
    static let delay = Duration.milliseconds(100)
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// A daemon counts as there until it has been missing for this long: an app may start before it, and it may
    /// restart.
    static let patienceNanoseconds: UInt64 = 10_000_000_000
    /// Datagrams that wait, at most.
    static let backlog = 32

    /// A datagram that is complete.
    private struct Datagram: Sendable {
        var writer: ReportWriter
        let sequence: UInt32
    }

    private struct Gathered {
        var writer = ReportWriter()
        var held = HeldRecords()
        /// Datagrams to send, oldest first.
        var complete: [Datagram] = []
        /// The memory of a sent datagram, to be used again.
        var spare: ReportWriter?
        var sequence: UInt32 = 0
        var droppedRecords: UInt32 = 0
        var isFlushDue = false
        /// Before this time the sender expects no daemon and gathers nothing.
        var quietUntil: UInt64 = 0

        /// - Returns: Whether a datagram is full.
        mutating func take(_ records: [Report.Record]) -> Bool {
            let known = self.sequence
            // A span, because an array's subscript would copy each record.
            let found = records.span
            for index in found.indices {
                // Nearly all records are whole exchanges. They are written from where they are.
                if self.held.passes(found[index]) {
                    self.write(found[index])
                } else if let ended = self.held.take(records[index]) {
                    self.write(ended)
                }
                if self.held.isFull { self.writeHeld() }
            }
            return self.sequence != known
        }

        mutating func writeHeld() {
            var held = HeldRecords()
            swap(&held, &self.held)
            held.removeAll { self.write($0) }
            // Its memory is used again.
            self.held = held
        }

        private mutating func write(_ record: borrowing Report.Record) {
            guard !self.writer.append(record) else { return }
            self.complete(ReportSender.backlog)
            // A single record always fits into an empty datagram.
            _ = self.writer.append(record)
        }

        /// Makes a datagram of the gathered records if there is room for one more. Otherwise drops the records.
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
    /// The thread that sends holds this lock, so datagrams go one after the other.
    private let socket = Mutex<ReportSocket?>(nil)
    /// The time since which there has been no daemon, as far as the sender knows, at first the time of the start; 0:
    /// there is a daemon.
    private let missingSince: Atomic<UInt64>
    /// The time of the next look for a daemon. An atomic, because connections without a listener ask at every event,
    /// and none of them may wait for another.
    private let nextLook = Atomic<UInt64>(0)

    init(path: String, clock: @escaping @Sendable () -> UInt64 = TrafficClock.nanoseconds) {
        self.path = path
        self.clock = clock
        self.missingSince = Atomic(clock())
    }

    /// Records that never reached a daemon, because the daemon did not keep up.
    var droppedRecords: UInt32 { self.gathered.withLock { $0.droppedRecords } }

    /// Whether a daemon is there, or has been missing for less than ``patienceNanoseconds``.
    ///
    /// The sender looks for a daemon at most once in ``retryNanoseconds``.
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
            // An earlier attempt may have found no daemon and set a quiet time: the sender tries again at once.
            self.gathered.withLock { $0.quietUntil = 0 }
        }
    }

    func send(_ records: [Report.Record]) {
        let now = self.clock()
        let (isComplete, isFirst) = self.gathered.withLock { gathered in
            guard now >= gathered.quietUntil else { return (false, false) }
            let isComplete = gathered.take(records)
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

    /// Sends all gathered records.
    func flush() {
        self.gathered.withLock { gathered in
            gathered.writeHeld()
            gathered.complete(Self.backlog)
        }
        self.socket.withLock { self.transmit(&$0) }
        let isWaiting = self.gathered.withLock { gathered in
            gathered.isFlushDue =
                !gathered.complete.isEmpty || !gathered.writer.isEmpty || !gathered.held.isEmpty
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
            // A process without a free descriptor may have one the next time.
            let outcome = datagram.writer.send(header) { socket?.send($0, to: self.path) } ?? .full
            self.note(isThere: outcome != .absent, at: now)
            switch outcome {
            case .sent:
                datagram.writer.removeAll()
                self.gathered.withLock { $0.spare = datagram.writer }
            case .full: return self.gathered.withLock { $0.complete.insert(datagram, at: 0) }
            case .absent:
                // The waiting datagrams were for a daemon that is gone.
                return self.gathered.withLock { gathered in
                    gathered.complete = []
                    gathered.held = HeldRecords()
                    gathered.quietUntil = self.clock() + Self.retryNanoseconds
                }
            }
        }
    }
}
