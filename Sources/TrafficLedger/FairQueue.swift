import DequeModule
import TrafficLimits
import TrafficModel

/// What users have of something, for each user the oldest first. A user with too much loses that user's own oldest. If all
/// together have too much, those with the most lose theirs.
struct FairQueue<Element: Codable & Sendable>: Codable, Sendable {
    private var queues: [PayingUser: Deque<Element>] = [:]
    private(set) var count = 0

    /// Of one user after the other.
    var elements: some Sequence<Element> { self.queues.values.joined() }

    /// - Parameter slack: By so much all together may exceed their limit before the first must go, because that takes a
    ///   look at all users; `nil`: by a quarter.
    /// - Returns: What has to go.
    mutating func append(
        _ element: Element,
        of user: PayingUser,
        within limit: UserLimit,
        slack: Int? = nil
    ) -> [Element] {
        self.queues[user, default: []].append(element)
        self.count += 1
        if self.queues[user, default: []].count > limit.ofUser { return [self.removeFirst(of: user)] }
        return self.count > limit.inAll + (slack ?? limit.inAll / 4) ? self.takeSurplus(limit.inAll) : []
    }

    /// Takes out what exceeds the limits, and of each user the oldest as long as they are over.
    mutating func take(within limit: UserLimit, andWhile isOver: (Element) -> Bool) -> [Element] {
        var taken: [Element] = []
        // In order, because one table fills another: the same events give the same sockets.
        for user in self.queues.keys.sorted() {
            while let oldest = self.queues[user]?.first,
                isOver(oldest) || self.queues[user, default: []].count > limit.ofUser
            {
                taken.append(self.removeFirst(of: user))
            }
        }
        if self.count > limit.inAll { taken += self.takeSurplus(limit.inAll) }
        return taken
    }

    /// Removes the first element of a user for which this holds, if there is one.
    mutating func remove(of user: PayingUser, where isIt: (Element) -> Bool) {
        guard let index = self.queues[user]?.firstIndex(where: isIt) else { return }
        self.queues[user]?.remove(at: index)
        self.count -= 1
        self.removeEmpty(user)
    }

    private mutating func removeEmpty(_ user: PayingUser) {
        if self.queues[user]?.isEmpty == true { self.queues[user] = nil }
    }

    private mutating func takeSurplus(_ inAll: Int) -> [Element] {
        let surplus = FairShare.surplus(of: self.queues.mapValues(\.count), limit: inAll)
        return surplus.sorted { $0.key < $1.key }.flatMap { user, count in
            (0..<count).map { _ in self.removeFirst(of: user) }
        }
    }

    private mutating func removeFirst(of user: PayingUser) -> Element {
        self.count -= 1
        let first = self.queues[user, default: []].removeFirst()
        self.removeEmpty(user)
        return first
    }
}

/// Decides which users lose entries when all users together have too many.
enum FairShare {
    /// How many entries each user keeps: at most as many as one user may have, and together as many as all may have.
    static func kept<User: Hashable & Comparable>(of counts: [User: Int], within limit: UserLimit) -> [User: Int] {
        let own = counts.mapValues { min($0, limit.ofUser) }
        return own.merging(self.surplus(of: own, limit: limit.inAll), uniquingKeysWith: -)
    }

    /// How many entries each user has to give up, so that at most `limit` entries are left. The users with the most
    /// entries come down to one common number. If there are more users than places, the first of them keep one entry and
    /// the others keep none.
    ///
    /// - Complexity: O(*n* log *n*) in the number of users, so that a flood of made-up users can't make the cost
    ///   quadratic.
    /// - Returns: Only users who give up something.
    static func surplus<User: Hashable & Comparable>(of counts: [User: Int], limit: Int) -> [User: Int] {
        guard counts.values.reduce(0, +) > limit else { return [:] }
        var room = limit
        var level = 0
        for (index, count) in counts.values.sorted().enumerated() {
            level = room / (counts.count - index)
            guard count <= level else { break }
            room -= count
        }
        if level > 0 { return counts.compactMapValues { $0 > level ? $0 - level : nil } }
        let keeping = Set(counts.keys.sorted().prefix(limit))
        return counts.reduce(into: [:]) { $0[$1.key] = keeping.contains($1.key) ? $1.value - 1 : $1.value }
            .filter { $0.value > 0 }
    }
}
