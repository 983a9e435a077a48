import Dispatch
import Glibc
import Synchronization
import TrafficLimits
import TrafficModel

/// The names of users, as the host has them now.
///
/// A user may have 65,536 subordinate ids (subuid(5)), and one process of each makes as many questions. So subordinate ids
/// have a table and a queue of their own, and delay and displace the names of no other users.
public final class UserNames: Sendable {
    private let own: NameTable
    private let subordinate: NameTable

    public convenience init() { self.init(lookUp: HostFacts.userName) }

    /// - Parameters:
    ///   - lookUp: May wait for a directory service.
    ///   - database: The file with the users of this host.
    ///   - now: Nanoseconds.
    package init(
        lookUp: @escaping @Sendable (UInt32) -> HostFacts.UserName,
        database: String = "/etc/passwd",
        now: @escaping @Sendable () -> UInt64 = MonotonicClock.nanoseconds
    ) {
        self.own = NameTable(lookUp: lookUp, database: database, now: now)
        self.subordinate = NameTable(lookUp: lookUp, database: database, now: now)
    }

    private func table(of uid: UInt32) -> NameTable { PayingUser(uid).uid == nil ? self.subordinate : self.own }

    /// The name of a user; `nil` if the user has none. Waits for a directory service if nobody has asked for the user
    /// yet.
    public subscript(uid: UInt32) -> String? { self.table(of: uid)[uid] }

    /// The names of users, as far as they are known without waiting long for a directory service.
    public func known(_ users: [UInt32]) -> [UInt32: String] {
        self.prepare(users)
        return users.reduce(into: [:]) { $0[$1] = self.table(of: $1).known($1) }
    }

    /// Asks for users of whom nothing is known, and waits a moment: names that come at once are there with the first
    /// row of a process.
    func prepare(_ users: some Sequence<UInt32>) {
        let tables = Dictionary(grouping: users) { PayingUser($0).uid == nil }
        self.own.prepare(tables[false] ?? [])
        self.subordinate.prepare(tables[true] ?? [])
    }

    /// Each user's first answer since the last call, and each that is another one than before; `nil`: no name.
    func takeChanges() -> [UInt32: String?] {
        self.own.takeChanges().merging(self.subordinate.takeChanges()) { $1 }
    }
}

/// Names, and the queue that asks for them.
///
/// A directory service may answer slowly, or not at all. So the queue asks for the users of processes, and counting never
/// waits for a name. A user may get a name, or another one: all are asked for again, the oldest answer first, after the
/// user database has changed, and after ``patience`` in any case, because a directory service does not say that it has
/// changed. Until then the old answer counts.
private final class NameTable: Sendable {
    private struct Answer {
        var name: String?
        /// Nanoseconds of ``MonotonicClock``.
        var askedAt: UInt64
    }

    private struct State {
        var answers: [UInt32: Answer] = [:]
        /// Users in the order of their answers, and again at each new answer: only the last place counts.
        var order: [(uid: UInt32, askedAt: UInt64)] = []
        /// Where the order begins.
        var oldest = 0
        /// Users for whom the queue asks.
        var asking: Set<UInt32> = []
        /// Users who have another name than before.
        var changes: [UInt32: String?] = [:]
        /// The queue has not answered in time, and still has questions from then.
        var isSlow = false
        var database: Database?
        /// Answers from before this time are old.
        var changedAt: UInt64 = 0
        var nextLook: UInt64 = 0
    }

    /// What says that a file is another one.
    private struct Database: Equatable {
        var inode: UInt64
        var size: Int
        var modifiedAt: [Int]

        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (self.inode, self.size) = (UInt64(status.st_ino), Int(status.st_size))
            self.modifiedAt = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        }
    }

    /// How long an answer counts.
    private static let patience: UInt64 = 600_000_000_000
    /// The time between two looks at the database. A look asks for ``mostAtATime`` users again, so that 65,536 of them do
    /// not keep a processor busy.
    private static let period: UInt64 = 1_000_000_000
    private static let mostAtATime = 100
    private static let most = 1 << 17

    private let state: Mutex<State>
    private let queue = DispatchQueue(label: "users")
    private let lookUp: @Sendable (UInt32) -> HostFacts.UserName
    private let database: String
    private let now: @Sendable () -> UInt64

    init(
        lookUp: @escaping @Sendable (UInt32) -> HostFacts.UserName,
        database: String,
        now: @escaping @Sendable () -> UInt64
    ) {
        (self.lookUp, self.database, self.now) = (lookUp, database, now)
        self.state = Mutex(State(database: Database(database)))
    }

    subscript(uid: UInt32) -> String? {
        if let known = self.state.withLock({ $0.answers[uid] }) { return known.name }
        self.ask(uid)
        return self.state.withLock { $0.answers[uid]?.name }
    }

    func known(_ uid: UInt32) -> String? { self.state.withLock { $0.answers[uid]?.name } }

    func prepare(_ users: [UInt32]) {
        let (unknown, isSlow) = self.state.withLock { state in
            (users.filter { state.answers[$0] == nil && state.asking.insert($0).inserted }, state.isSlow)
        }
        guard !unknown.isEmpty else { return }
        let work = self.ask(unknown)
        guard !isSlow, work.wait(timeout: .now() + .milliseconds(100)) == .timedOut else { return }
        self.state.withLock { $0.isSlow = !$0.asking.isEmpty }
    }

    func takeChanges() -> [UInt32: String?] {
        let now = self.now()
        let (changes, old) = self.state.withLock { state in
            defer { state.changes = [:] }
            return (state.changes, now < state.nextLook ? [] : self.look(&state, now))
        }
        if !old.isEmpty { _ = self.ask(old) }
        return changes
    }

    /// - Returns: Whom to ask for again.
    private func look(_ state: inout State, _ now: UInt64) -> [UInt32] {
        state.nextLook = now + Self.period
        let database = Database(self.database)
        if database != state.database {
            // After the look at the file: an answer from before may be of the old one.
            state.changedAt = self.now()
            state.database = database
        }
        // What is being asked for is asked for once.
        guard state.asking.isEmpty else { return [] }
        var old: [UInt32] = []
        while old.count < Self.mostAtATime, state.oldest < state.order.count {
            let place = state.order[state.oldest]
            guard place.askedAt < state.changedAt || now > place.askedAt + Self.patience else { break }
            state.oldest += 1
            if state.answers[place.uid]?.askedAt == place.askedAt { old.append(place.uid) }
        }
        if state.oldest > Self.most {
            state.order.removeFirst(state.oldest)
            state.oldest = 0
        }
        state.asking.formUnion(old)
        return old
    }

    private func ask(_ users: [UInt32]) -> DispatchWorkItem {
        let work = DispatchWorkItem { for uid in users { self.ask(uid) } }
        self.queue.async(execute: work)
        return work
    }

    private func ask(_ uid: UInt32) {
        // The database may change behind the look-up, and the answer is then old at once.
        let askedAt = self.now()
        let answer = self.lookUp(uid)
        self.state.withLock { state in
            state.asking.remove(uid)
            if state.asking.isEmpty { state.isSlow = false }
            let known = state.answers[uid]
            // Somebody else has asked later, and has the answer already.
            guard known.map({ $0.askedAt <= askedAt }) ?? true else { return }
            // Without an answer the old name stays.
            let name = if case .known(let name) = answer { name } else { known?.name }
            if known == nil && state.answers.count >= Self.most {
                (state.answers, state.order, state.oldest) = ([:], [], 0)
            }
            if known.map({ $0.name != name }) ?? true { state.changes[uid] = .some(name) }
            state.answers[uid] = Answer(name: name, askedAt: askedAt)
            state.order.append((uid, askedAt))
        }
    }
}
