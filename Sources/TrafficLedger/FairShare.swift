import TrafficModel

/// Decides which users lose entries when all users together have too many.
enum FairShare {
    /// How many entries each user keeps: at most as many as one user may have, and together as many as all may have.
    static func kept<User: Hashable>(of counts: [User: Int], within limit: UserLimit) -> [User: Int] {
        let own = counts.mapValues { min($0, limit.ofUser) }
        return own.merging(self.surplus(of: own, limit: limit.inAll), uniquingKeysWith: -)
    }

    /// How many entries each user has to give up, so that at most `limit` entries are left. The users with the most
    /// entries come down to one common number. If there are more users than places, some users keep one entry and the
    /// others keep none.
    ///
    /// - Complexity: O(*n* log *n*) in the number of users, so that a flood of made-up users can't make the cost
    ///   quadratic.
    /// - Returns: Only users who give up something.
    static func surplus<User: Hashable>(of counts: [User: Int], limit: Int) -> [User: Int] {
        guard counts.values.reduce(0, +) > limit else { return [:] }
        var room = limit
        var level = 0
        for (index, count) in counts.values.sorted().enumerated() {
            level = room / (counts.count - index)
            guard count <= level else { break }
            room -= count
        }
        if level > 0 { return counts.compactMapValues { $0 > level ? $0 - level : nil } }
        var places = limit
        return counts.mapValues { count in
            places -= 1
            return places >= 0 ? count - 1 : count
        }
        .filter { $0.value > 0 }
    }
}
