import TrafficReport

/// Names of a connection's exchanges. Paths differ, but routes are few and repeat. So the texts of a name are put
/// together once.
struct KnownNames {
    /// Number of names that are kept. A new name replaces the one at the same place.
    private static let places = 16
    /// Bytes of a route, at most. Names with longer routes are made anew each time.
    private static let longestRoute = 128

    private var names: [(host: String, name: Report.Name)?] = []

    /// - Parameters:
    ///   - route: The route of this request.
    ///   - make: Called if the name is not known. `isLasting`: the name is the same the next time.
    mutating func name(
        of request: MessageHead.Request,
        route: String,
        _ make: () -> (name: Report.Name, isLasting: Bool)
    ) -> Report.Name {
        guard route.utf8.count <= Self.longestRoute, request.hasPlainHost else { return make().name }
        if self.names.isEmpty { self.names = Array(repeating: nil, count: Self.places) }
        let place = Self.place(of: route)
        if let known = self.names[place], known.name.route == route, known.host == request.host,
            known.name.method == request.method
        {
            return known.name
        }
        let (name, isLasting) = make()
        if isLasting { self.names[place] = (request.host, name) }
        return name
    }

    private static func place(of route: String) -> Int {
        var sum: UInt8 = 0
        let bytes = route.utf8.span
        for index in bytes.indices { sum &+= bytes[index] }
        return Int(sum) % self.places
    }
}
