import TrafficReport

/// Names that a connection's exchanges have had. Whatever the paths, routes are few and come again: a name is made of texts that are put
/// together once.
struct KnownNames {
    /// Names that are kept: the next one with the same place takes it.
    private static let places = 16
    /// Bytes of a route; longer ones are made anew each time.
    private static let longestRoute = 128

    private var names: [(host: String, name: Report.Name)?] = []

    /// - Parameters:
    ///   - route: Of this request.
    ///   - make: Called where the name is not known. `isLasting`: it is the same the next time.
    mutating func name(
        of request: HTTP1Head.Request,
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
