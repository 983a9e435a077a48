import Dispatch
import Glibc
import Synchronization

/// The names of users, as the host has them now.
///
/// A directory service may answer slowly, or not at all. So a queue of its own asks for the users of processes, and counting
/// never waits for a name. A user may get a name, or another one: all are asked for again after the user database has
/// changed, and after ``patience`` in any case, because a directory service does not say that it has changed.
public final class UserNames: Sendable {
    private struct Answer {
        var name: String?
        /// Nanoseconds of ``MonotonicClock``.
        var askedAt: UInt64
    }

    private struct State {
        var answers: [UInt32: Answer] = [:]
        /// Users for whom the queue asks.
        var asking: Set<UInt32> = []
        /// Users who have another name than before.
        var changes: [UInt32: String?] = [:]
        /// The queue has not answered in time, and has not answered since.
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
    /// The time between two looks at the database. A look asks for ``mostAtATime`` users again, so that one user's
    /// 65,536 subordinate ids (subuid(5)) do not keep a processor busy.
    private static let period: UInt64 = 1_000_000_000
    private static let mostAtATime = 100
    private static let most = 1 << 17

    private let state: Mutex<State>
    private let queue = DispatchQueue(label: "users")
    private let lookUp: @Sendable (UInt32) -> String?
    private let database: String
    private let now: @Sendable () -> UInt64

    public convenience init() { self.init(lookUp: HostFacts.userName) }

    /// - Parameters:
    ///   - lookUp: May wait for a directory service.
    ///   - database: The file with the users of this host.
    ///   - now: Nanoseconds.
    package init(
        lookUp: @escaping @Sendable (UInt32) -> String?,
        database: String = "/etc/passwd",
        now: @escaping @Sendable () -> UInt64 = MonotonicClock.nanoseconds
    ) {
        (self.lookUp, self.database, self.now) = (lookUp, database, now)
        self.state = Mutex(State(database: Database(database)))
    }

    /// The name of a user; `nil` if the user has none. May wait for a directory service, so this is for threads of which
    /// only one reader waits.
    public subscript(uid: UInt32) -> String? {
        let now = self.now()
        let known = self.state.withLock { state in
            state.answers[uid].flatMap { Self.isOld($0, state.changedAt, now) ? nil : $0 }
        }
        return known.map(\.name) ?? self.ask(uid)
    }

    /// What is known of a user. ``takeChanges()`` has the name when it is known, and when it is another one.
    func known(_ uid: UInt32) -> String? { self.state.withLock { $0.answers[uid]?.name } }

    /// Asks for users of whom nothing is known, and waits a moment: names that come at once are there with the first
    /// row of a process.
    func prepare(_ users: some Sequence<UInt32>) {
        let (unknown, isSlow) = self.state.withLock { state in
            (users.filter { state.answers[$0] == nil && state.asking.insert($0).inserted }, state.isSlow)
        }
        guard !unknown.isEmpty else { return }
        let work = self.ask(unknown)
        guard !isSlow, work.wait(timeout: .now() + .milliseconds(100)) == .timedOut else { return }
        self.state.withLock { $0.isSlow = !$0.asking.isEmpty }
    }

    /// The users whose names have changed since the last call, with their names; `nil`: none any more.
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
            state.changedAt = now
            state.database = database
        }
        guard state.asking.isEmpty else { return [] }
        let (answers, changedAt) = (state.answers, state.changedAt)
        let old = answers.lazy.filter { Self.isOld($0.value, changedAt, now) }.prefix(Self.mostAtATime).map(\.key)
        state.asking.formUnion(old)
        return Array(old)
    }

    private static func isOld(_ answer: Answer, _ changedAt: UInt64, _ now: UInt64) -> Bool {
        answer.askedAt < changedAt || now > answer.askedAt + Self.patience
    }

    private func ask(_ users: [UInt32]) -> DispatchWorkItem {
        let work = DispatchWorkItem { for uid in users { _ = self.ask(uid) } }
        self.queue.async(execute: work)
        return work
    }

    private func ask(_ uid: UInt32) -> String? {
        // The database may change behind the look-up, and the answer is then old at once.
        let askedAt = self.now()
        let name = self.lookUp(uid)
        self.state.withLock { state in
            if state.answers.count >= Self.most { state.answers = [:] }
            if state.answers[uid].map({ $0.name != name }) ?? (name != nil) { state.changes[uid] = .some(name) }
            state.answers[uid] = Answer(name: name, askedAt: askedAt)
            if state.asking.remove(uid) != nil { state.isSlow = false }
        }
        return name
    }
}
