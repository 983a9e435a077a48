/// How many groups of processes have rows of their own. A user chooses the names of processes, and could fill any limit;
/// so users have limits of their own. Where all users together fill theirs, a user with few groups still gets places.
struct GroupPlaces {
    struct Limit {
        var ofUser: Int
        var inAll: Int
    }

    /// A user with fewer groups gets further places when all are taken, until twice as many are.
    static let few = 50

    private let limit: Limit
    private var ofUser: [UInt32?: Int] = [:]
    private var inAll = 0

    init(_ limit: Limit) {
        self.limit = limit
    }

    /// - Parameter uid: The user whose group it is.
    func hasRoom(for uid: UInt32?) -> Bool {
        let own = self.ofUser[uid, default: 0]
        return own < self.limit.ofUser
            && (self.inAll < self.limit.inAll || own < Self.few && self.inAll < 2 * self.limit.inAll)
    }

    mutating func take(for uid: UInt32?) {
        self.ofUser[uid, default: 0] += 1
        self.inAll += 1
    }
}
