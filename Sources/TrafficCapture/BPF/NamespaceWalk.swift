import CLinux
import Glibc
import Synchronization
import TrafficModel

/// Beside a sweep of the sockets that processes hold: reads the TCP and UDP sockets of one network namespace after the
/// other, on a thread of its own. So the sockets that no process holds are listed too.
///
/// A list of sockets is that of the reading thread's network namespace, so the thread moves from namespace to namespace
/// (setns(2), CAP_SYS_ADMIN). Each namespace costs a walk through the kernel's table of all connections, whatever the
/// namespace has. The counting thread never waits for a walk: it takes at each sweep what has come.
final class NamespaceWalk {
    /// What came since the last call.
    struct News {
        /// Records of sockets (`struct traffic_socket`), in pieces of any size.
        var pieces: [[UInt8]] = []
        /// The walk has ended.
        var end: End?
    }

    struct End {
        /// The sockets of these namespaces are complete.
        var namespaces: Set<UInt32> = []
        /// What could not be read, with the reason.
        var failures: [(part: String, error: CaptureError)] = []
    }

    private let walker: Walker
    private let thread: OwnThread
    /// A walk has begun, and its end was not taken yet.
    private(set) var isUnderWay = false
    /// After a walk the thread rests this many times as long as the walk took of a processor, so that a user with many
    /// namespaces can't keep the daemon busy.
    private static let restFactor: UInt64 = 19
    private var restsUntil: UInt64 = 0

    /// - Returns: `nil` if the capture has no programs for this: its sweep lists all sockets, or the kernel refuses them.
    init?(_ kernel: KernelSide) throws(CaptureError) {
        var lists: [Walker.List] = []
        for name in [BPFPrograms.sweepOfTCPSockets, BPFPrograms.sweepOfUDPSockets] {
            guard let link = kernel.iterators[name]?.linkDescriptor else { continue }
            let own = try check("fcntl", name) { fcntl(link, F_DUPFD_CLOEXEC, 0) }
            lists.append(Walker.List(program: name, link: OwnedDescriptor(owning: own)))
        }
        if lists.isEmpty { return nil }
        self.walker = try Walker(lists)
        self.thread = try OwnThread("walk") { [walker] in walker.run() }
    }

    /// If a walk is in progress, this waits for the end of its present list.
    deinit {
        self.walker.stop()
        self.thread.join()
    }

    /// Whether every kind of list is read, so that a walk without failures has all TCP and UDP sockets of its namespaces.
    var isComplete: Bool { self.walker.lists.count == 2 }

    /// Whether a walk may begin now.
    var isReady: Bool { !self.isUnderWay && MonotonicClock.nanoseconds() >= self.restsUntil }

    /// Begins a walk. Call this only if ``isReady``.
    func begin() throws(CaptureError) {
        try self.walker.begin()
        self.isUnderWay = true
    }

    func take() -> News {
        let (news, cost) = self.walker.take()
        if news.end != nil {
            self.isUnderWay = false
            self.restsUntil = MonotonicClock.nanoseconds() +| cost *| Self.restFactor
        }
        return news
    }
}

/// What the thread does.
private final class Walker: Sendable {
    /// A program and what it is run over.
    final class List: Sendable {
        let program: String
        let link: OwnedDescriptor

        init(program: String, link: consuming OwnedDescriptor) {
            self.program = program
            self.link = link
        }
    }

    private struct State {
        var news = NamespaceWalk.News()
        /// Of the records in ``news``.
        var bytes = 0
        /// Nanoseconds of a processor that the walk took.
        var cost: UInt64 = 0
    }

    /// Bytes that wait for the counting thread. Beyond that the walk waits.
    private static let mostBytes = 16 << 20

    let lists: [List]
    private let state = Mutex(State())
    private let isStopped = Atomic<Bool>(false)
    /// Wakes the thread: a walk begins, there is room again, or the thread is to stop.
    private let wake: OwnedDescriptor

    init(_ lists: [List]) throws(CaptureError) {
        self.lists = lists
        self.wake = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC)) })
    }

    func begin() throws(CaptureError) {
        try check("eventfd_write", "walk") { eventfd_write(self.wake.descriptor, 1) }
    }

    func stop() {
        self.isStopped.store(true, ordering: .relaxed)
        eventfd_write(self.wake.descriptor, 1)
    }

    func take() -> (news: NamespaceWalk.News, cost: UInt64) {
        let (state, wasFull) = self.state.withLock { state in
            defer { state = State() }
            return (state, state.bytes >= Self.mostBytes)
        }
        // The thread waits only while this is set, so the word can't be taken for the beginning of a walk.
        if wasFull { eventfd_write(self.wake.descriptor, 1) }
        return (state.news, state.cost)
    }

    /// - Returns: Whether to go on.
    private func sleep() -> Bool {
        var count: eventfd_t = 0
        while !self.isStopped.load(ordering: .relaxed) {
            if eventfd_read(self.wake.descriptor, &count) == 0 { return !self.isStopped.load(ordering: .relaxed) }
            if errno != EINTR { return false }
        }
        return false
    }

    func run() {
        while self.sleep() {
            let begin = MonotonicClock.threadNanoseconds()
            var end = NamespaceWalk.End()
            do throws(CaptureError) {
                try NetworkNamespaces.forEach { [lists] () throws(CaptureError) in
                    let failed = end.failures.count
                    for list in lists {
                        do throws(CaptureError) {
                            try self.walk(list)
                        } catch {
                            // A list that fails in one namespace costs no other one.
                            end.failures.append((list.program, error))
                        }
                    }
                    guard end.failures.count == failed,
                        let namespace = ProcessDirectory.networkNamespace(task: "thread-self")
                    else { return }
                    end.namespaces.insert(namespace)
                }
            } catch {
                end.failures.append((BPFPrograms.sweepOfTCPSockets, error))
            }
            let cost = MonotonicClock.threadNanoseconds() - begin
            self.state.withLock { state in
                state.news.end = end
                state.cost = cost
            }
        }
    }

    private func walk(_ list: List) throws(CaptureError) {
        if self.isStopped.load(ordering: .relaxed) { return }
        let descriptor = try OwnedDescriptor(iterating: list.link.descriptor, name: list.program)
        try descriptor.readAll(chunk: BPFIterator.chunk, name: list.program) { piece in
            let bytes = piece.withUnsafeBytes { [UInt8]($0) }
            let isFull = self.state.withLock { state in
                state.news.pieces.append(bytes)
                state.bytes += bytes.count
                return state.bytes >= Self.mostBytes
            }
            // What was read must be handed over, so the thread waits after that. Between two reads the kernel holds no
            // lock.
            if isFull { _ = self.sleep() }
        }
    }
}
