/// Who gives way where all together have too much.
enum FairShare {
    /// How many each user has to give up so that no more than `limit` are left: those who have most come down to one common number. Where there
    /// are more users than places, some lose their only one.
    ///
    /// - Complexity: O(*n* log *n*) in the number of users, so that whoever makes up users can't make it quadratic.
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
