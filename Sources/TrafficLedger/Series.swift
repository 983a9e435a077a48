import TrafficLimits
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

/// Which series each life of a group counts in, and what the lives had that are over.
///
/// A series outlives the lives of its groups, so its sum goes on in the next one.
struct GroupSeries: Codable {
    private var names = SeriesNames<ProcessSeries>(limit: SeriesLimits.processes)
    private var users = OverflowUsers()
    /// What lives had that are over, by the place of their series.
    private var ended: [ByteCounts] = []
    /// The same of lives without a series of their own, by ``OverflowUsers/key(_:)``.
    private var endedInOverflow: [UInt32?: ByteCounts] = [:]

    /// A life begins.
    ///
    /// - Returns: The place of its series, until it ends; `nil`: the overflow of the user.
    mutating func begin(_ group: ProcessGroup) -> Int? {
        // What adds up under `_other` is of many groups, so it is an overflow anyway.
        guard !group.isOther, let place = self.names.place(of: ProcessSeries(group), group.uid) else {
            self.users.add(group.uid)
            return nil
        }
        if place == self.ended.count { self.ended.append(ByteCounts()) }
        return place
    }

    /// A life is over.
    ///
    /// - Parameter place: As ``begin(_:)`` returned it.
    mutating func end(_ group: ProcessGroup, at place: Int?, _ bytes: ByteCounts) {
        if let place {
            self.ended[place] += bytes
        } else {
            self.endedInOverflow[self.users.key(group.uid), default: ByteCounts()] += bytes
        }
    }

    /// - Parameter lives: All lives that go on: the place of the series, the user, and what counts in the series.
    func sums(
        with lives: some Sequence<(place: Int?, user: UInt32?, bytes: ByteCounts)>
    ) -> MetricsReading.Sums<ProcessSeries, ByteCounts> {
        var values = self.ended
        var overflow = self.endedInOverflow
        for (place, user, bytes) in lives {
            if let place {
                values[place] += bytes
            } else {
                overflow[self.users.key(user), default: ByteCounts()] += bytes
            }
        }
        return MetricsReading.Sums(
            series: zip(self.names.names, values).map { .init(name: $0, value: $1) },
            overflow: overflow.reduce(into: [:]) { $0[.init(user: $1.key)] = $1.value }
        )
    }
}

/// Which series each row of a route counts in. Several rows may share a series: those of a server under several host
/// names, and those of several containers.
struct RouteSeries: Codable {
    private var names = SeriesNames<EndpointSeries>(limit: SeriesLimits.endpoints)
    private var users = OverflowUsers()
    /// How many names a program has.
    private var ofProcess: [ProcessSeries: Int] = [:]
    /// The place of the series, by the index of the row. `nil`: the overflow of the user.
    private var places: [Int?] = []

    /// - Parameter row: The index of the row. New rows come in the order of their indexes.
    mutating func add(_ row: Int, _ name: EndpointName, of group: ProcessGroup) {
        guard row == self.places.count else { return }
        let place = Self.series(name, of: group).flatMap { self.place(of: $0) }
        if place == nil { self.users.add(group.uid) }
        self.places.append(place)
    }

    private mutating func place(of series: EndpointSeries) -> Int? {
        if self.names.has(series) { return self.names.place(of: series, series.process.uid) }
        let count = self.ofProcess[series.process] ?? 0
        guard count < SeriesLimits.endpointsOfProcess else { return nil }
        let place = self.names.place(of: series, series.process.uid)
        if place != nil { self.ofProcess[series.process] = count + 1 }
        return place
    }

    /// `nil`: the row is an overflow itself.
    private static func series(_ name: EndpointName, of group: ProcessGroup) -> EndpointSeries? {
        guard name != name.other, !group.isOther, case .route(let host, let route) = name.subject
        else { return nil }
        return EndpointSeries(
            process: ProcessSeries(group),
            role: name.role,
            host: name.role == .client ? host : "",
            route: route
        )
    }

    /// - Parameter rows: All rows, in the order of their indexes.
    func sums(
        of rows: some Sequence<(endpoint: ServiceEndpoint, counts: EndpointSeriesCounts)>
    ) -> MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts> {
        var values = [EndpointSeriesCounts](repeating: EndpointSeriesCounts(), count: self.names.names.count)
        var overflow: [MetricsReading.Overflow: EndpointSeriesCounts] = [:]
        for ((endpoint, counts), place) in zip(rows, self.places) {
            if let place {
                values[place] += counts
            } else {
                let user = self.users.key(endpoint.process.uid)
                let key = MetricsReading.Overflow(user: user, role: endpoint.role)
                overflow[key, default: EndpointSeriesCounts()] += counts
            }
        }
        return MetricsReading.Sums(
            series: zip(self.names.names, values).map { .init(name: $0, value: $1) },
            overflow: overflow
        )
    }
}
