/// How many groups of processes have rows of their own. A user chooses the names of processes, and could fill any limit;
/// so users have limits of their own. Where all users together fill theirs, a user with few groups still gets places.
package struct GroupPlaces: Sendable {
    /// A user with fewer groups gets further places when all are taken, until twice as many are.
    package static let few = 50

    private let limit: UserLimit
    private var ofUser: [PayingUser?: Int] = [:]
    private var inAll = 0

    package init(_ limit: UserLimit) {
        self.limit = limit
    }

    /// - Parameter uid: The user whose group it is.
    package func hasRoom(for uid: UInt32?) -> Bool {
        let own = self.ofUser[uid.map(PayingUser.init), default: 0]
        return own < self.limit.ofUser
            && (self.inAll < self.limit.inAll || own < Self.few && self.inAll < 2 * self.limit.inAll)
    }

    package mutating func take(for uid: UInt32?) {
        self.ofUser[uid.map(PayingUser.init), default: 0] += 1
        self.inAll += 1
    }

    /// The group needs its place no more.
    package mutating func giveBack(of uid: UInt32?) {
        let user = uid.map(PayingUser.init)
        guard let own = self.ofUser[user] else { return }
        self.ofUser[user] = own > 1 ? own - 1 : nil
        self.inAll -= 1
    }
}
