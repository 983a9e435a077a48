import Glibc
import Synchronization
import TrafficReport

/// Gathers records into datagrams and sends them. The caller never waits.
///
/// Records wait for at most ``delay``, or until a datagram is full. A daemon's queue holds few datagrams
/// (`net.unix.max_dgram_qlen`). Datagrams that find the queue full wait for the next time, up to
/// ``DatagramQueue/most``. A datagram that the kernel will never take is dropped. If there is no daemon, the sender
/// gathers nothing until ``retryNanoseconds`` have passed; then the next record tries again. Once there has been no
/// daemon for ``patienceNanoseconds``, new connections and exchanges need not be counted (``hasDaemon``).
///
/// All threads of a server report here. So that they seldom wait for one another, the event loops have several
/// gatherers, and sending has a lock. A thread that finds this lock taken leaves its datagrams to the thread that holds
/// it. The datagrams of all gatherers have one numbering, by which the daemon finds losses.
final class ReportSender: Sendable {
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// A daemon counts as there until it has been missing for this long: an app may start before it, and it may
    /// restart.
    static let patienceNanoseconds: UInt64 = 10_000_000_000
    /// Gatherers of event loops; further loops share them. All gatherers send at the same time, and a daemon's queue may
    /// hold only ten datagrams.
    private static let mostGatherers = 8
    /// Threads that are told apart. Beyond this a thread's gatherer is left to chance.
    private static let mostThreads = 1_024

    private let path: String
    /// As in ``ReportSocket/init(sendBuffer:)``.
    private let sendBuffer: Int32?
    private let delay: Duration
    private let clock: @Sendable () -> UInt64
    private let queue: DatagramQueue
    /// The first is for records that any thread may report.
    private let gatherers: [RecordGatherer]
    /// The threads of event loops. A thread's place here chooses its gatherer.
    private let threads = Mutex<[pthread_t]>([])
    /// A task will send what is gathered.
    private let isFlushDue = Atomic<Bool>(false)
    /// Before this time the sender expects no daemon and gathers nothing. 0: there is no such time.
    private let quietUntil = Atomic<UInt64>(0)
    /// The thread that sends holds this lock, so datagrams go one after the other.
    private let socket = Mutex<ReportSocket?>(nil)
    /// The time since which there has been no daemon, as far as the sender knows, at first the time of the start; 0:
    /// there is a daemon.
    private let missingSince: Atomic<UInt64>
    /// The time of the next look for a daemon. An atomic, because connections without a listener ask at every event,
    /// and none of them may wait for another.
    private let nextLook = Atomic<UInt64>(0)

    /// - Parameter delay: How long records wait at most.
    init(
        path: String,
        sendBuffer: Int32? = nil,
        delay: Duration = .milliseconds(100),
        clock: @escaping @Sendable () -> UInt64 = TrafficClock.nanoseconds
    ) {
        (self.path, self.sendBuffer) = (path, sendBuffer)
        (self.delay, self.clock) = (delay, clock)
        self.missingSince = Atomic(clock())
        let queue = DatagramQueue()
        self.queue = queue
        self.gatherers = (0...Self.mostGatherers).map { _ in RecordGatherer(queue) }
    }

    /// Records that never reached a daemon: it did not keep up, or the kernel refused their datagram.
    var droppedRecords: UInt32 { self.queue.droppedRecords }

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
            self.quietUntil.store(0, ordering: .relaxed)
        }
    }

    // MARK: Gathering

    /// The gatherer of the calling thread, for all records of a connection whose event loop this thread is.
    func gathererOfThread() -> RecordGatherer {
        let thread = pthread_self()
        let place = self.threads.withLock { threads in
            if let place = threads.firstIndex(of: thread) { return place }
            guard threads.count < Self.mostThreads else { return Int(truncatingIfNeeded: thread >> 12) }
            threads.append(thread)
            return threads.count - 1
        }
        return self.gatherers[1 + place % Self.mostGatherers]
    }

    /// - Parameter gatherer: `nil`: the one for records of any thread.
    func send(_ batch: borrowing RecordBatch, by gatherer: RecordGatherer? = nil) {
        let quietUntil = self.quietUntil.load(ordering: .relaxed)
        guard quietUntil == 0 || self.clock() >= quietUntil else { return }
        let isComplete = (gatherer ?? self.gatherers[0]).take(batch)
        if isComplete { _ = self.socket.withLockIfAvailable { self.transmit(&$0) } }
        // After the records are gathered: a flush that has begun may have missed them.
        if !self.isFlushDue.load(ordering: .relaxed) { self.flushLater() }
    }

    // MARK: Sending

    private func flushLater() {
        guard !self.isFlushDue.exchange(true, ordering: .relaxed) else { return }
        Task.detached(priority: .utility) {
            try? await Task.sleep(for: self.delay)
            self.flush()
        }
    }

    /// Sends all gathered records.
    func flush() {
        self.isFlushDue.store(false, ordering: .relaxed)
        self.socket.withLock { socket in
            for gatherer in self.gatherers {
                gatherer.flush()
                // At once, so that the queue is not full for the next one.
                self.transmit(&socket)
            }
        }
        if !self.queue.isEmpty { self.flushLater() }
    }

    private func transmit(_ socket: inout ReportSocket?) {
        if socket == nil { socket = ReportSocket(sendBuffer: self.sendBuffer) }
        while var datagram = self.queue.takeFirst() {
            let now = self.clock()
            let header = Report.Header(
                sequence: datagram.sequence,
                droppedRecords: self.droppedRecords,
                sentAt: now
            )
            // A process without a free descriptor may have one the next time.
            let outcome = datagram.writer.send(header) { socket?.send($0, to: self.path) } ?? .full
            if outcome != .tooLarge { self.note(isThere: outcome != .absent, at: now) }
            switch outcome {
            case .sent: self.queue.reuse(datagram.writer)
            case .tooLarge: self.queue.drop(datagram)
            case .full: return self.queue.putBack(datagram)
            case .absent:
                // The waiting datagrams were for a daemon that is gone.
                self.queue.removeAll()
                for gatherer in self.gatherers { gatherer.forgetHeld() }
                return self.quietUntil.store(self.clock() + Self.retryNanoseconds, ordering: .relaxed)
            }
        }
    }
}
