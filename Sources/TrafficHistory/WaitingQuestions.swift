import TrafficLimits

/// Questions that wait for history's thread. Askers are strangers to each other: each has places, and they take turns.
struct WaitingQuestions<Question> {
    enum Asker: Hashable {
        /// For rules of alerts. It asks little at once, so it has no limit, and goes first.
        case daemon
        /// Those who may see all.
        case administrators
        case user(PayingUser)

        var isUser: Bool { if case .user = self { true } else { false } }
    }

    /// Of a user, and of all users.
    private let most: UserLimit
    private let mostOfAdministrators: Int
    private(set) var all: [(asker: Asker, question: Question)] = []
    /// When askers with a waiting question had their last turn: its number.
    private var turns: [Asker: UInt64] = [:]
    private var turn: UInt64 = 0

    init(most: UserLimit, ofAdministrators mostOfAdministrators: Int) {
        (self.most, self.mostOfAdministrators) = (most, mostOfAdministrators)
    }

    /// - Returns: Whether the question waits now; and a question that gave way to it, if all users' places were taken: the
    ///   newest of the user with the most.
    mutating func add(_ question: Question, of asker: Asker) -> (isAccepted: Bool, gaveWay: Question?) {
        let waiting = self.all.reduce(into: [:]) { $0[$1.asker, default: 0] += 1 }
        let own = waiting[asker] ?? 0
        var gaveWay: Question?
        switch asker {
        case .daemon: break
        case .administrators: guard own < self.mostOfAdministrators else { return (false, nil) }
        case .user:
            guard own < self.most.ofUser else { return (false, nil) }
            let users = waiting.filter(\.key.isUser)
            guard users.values.reduce(0, +) >= self.most.inAll else { break }
            // Only from somebody who still has no fewer than this one afterwards.
            guard let (user, count) = users.max(by: { $0.value < $1.value }), count > own + 1,
                let newest = self.all.lastIndex(where: { $0.asker == user })
            else { return (false, nil) }
            gaveWay = self.all.remove(at: newest).question
        }
        self.all.append((asker, question))
        return (true, gaveWay)
    }

    /// The daemon's first, then that of whoever has had no turn for longest.
    mutating func takeNext() -> Question? {
        let turns = self.turns
        let order = { (asker: Asker) in asker == .daemon ? 0 : 1 + (turns[asker] ?? 0) }
        guard let next = self.all.indices.min(by: { order(self.all[$0].asker) < order(self.all[$1].asker) }) else {
            return nil
        }
        let (asker, question) = self.all.remove(at: next)
        self.turn += 1
        self.turns[asker] = self.turn
        let waiting = Set(self.all.map(\.asker))
        self.turns = self.turns.filter { waiting.contains($0.key) }
        return question
    }
}
