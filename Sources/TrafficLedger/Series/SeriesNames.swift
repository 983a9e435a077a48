import TrafficModel

/// The names that have series of their own, in the order in which they were admitted. None is ever taken back.
///
/// A user may hold as many places as are still free. So the first user gets half of all places, the next one half of the
/// rest, and a stranger who makes up names leaves room for others.
struct SeriesNames<Name: Hashable & Codable & Sendable>: Codable, Sendable {
    private(set) var names: [Name] = []
    private var places: [Name: Int] = [:]
    /// `nil`: of all subordinate ids, which share places: a user may have thousands.
    private var held: [UInt32?: Int] = [:]
    /// Saved: with a higher limit, a name whose bytes are in an overflow could get a series, and its bytes would count
    /// twice.
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// - Parameter user: Whose name it is.
    /// - Returns: The place of the name in ``names``, for good; `nil`, for good, if there is no room.
    mutating func place(of name: Name, _ user: UInt32?) -> Int? {
        if let place = self.places[name] { return place }
        let user = user.flatMap { PayingUser($0).uid }
        let own = self.held[user] ?? 0
        guard own < self.limit - self.names.count else { return nil }
        self.held[user] = own + 1
        return self.append(name)
    }

    /// The same for names that no user chooses, which may take every place.
    mutating func place(of name: Name) -> Int? {
        if let place = self.places[name] { return place }
        return self.names.count < self.limit ? self.append(name) : nil
    }

    private mutating func append(_ name: Name) -> Int {
        self.places[name] = self.names.count
        self.names.append(name)
        return self.names.count - 1
    }

    func has(_ name: Name) -> Bool { self.places[name] != nil }
}

/// The users whose overflow is their own. All others share one, and so do subordinate ids, of which a user may have
/// thousands.
struct OverflowUsers: Codable, Sendable {
    private var users = SeriesNames<UInt32>(limit: SeriesLimits.users)

    /// Something of this user will be in an overflow.
    mutating func add(_ user: UInt32?) {
        // No user has two overflows, so there is nothing to share out.
        if let own = Self.own(user) { _ = self.users.place(of: own) }
    }

    /// - Returns: The user under whom the overflow counts. The same at every call after ``add(_:)``.
    func key(_ user: UInt32?) -> UInt32? { Self.own(user).flatMap { self.users.has($0) ? $0 : nil } }

    private static func own(_ user: UInt32?) -> UInt32? { user.flatMap { PayingUser($0).uid } }
}
