import TrafficReport

/// Names of a connection's exchanges. Paths differ, but routes are few and repeat. So the texts of a name are put
/// together once.
struct KnownNames {
    /// Number of names that are kept. A new name replaces the one at the same place.
    private static let places = 16
    /// Bytes of a route, at most. Names with longer routes are made anew each time.
    private static let longestRoute = 128

    private var names: [(host: String, name: Report.Name)?] = []

    /// Whether a name with this route may be kept.
    static func mayStay(_ request: MessageHead.Request, route: String) -> Bool {
        route.utf8.count <= Self.longestRoute && request.hasPlainHost
    }

    /// - Parameter route: The route of this request.
    func name(of request: MessageHead.Request, route: String) -> Report.Name? {
        guard !self.names.isEmpty, let known = self.names[Self.place(of: route)], known.name.route == route,
            known.host == request.host, known.name.method == request.method
        else { return nil }
        return known.name
    }

    /// - Parameter name: The name that this request has the next time, too.
    mutating func keep(_ name: Report.Name, of request: MessageHead.Request) {
        if self.names.isEmpty { self.names = Array(repeating: nil, count: Self.places) }
        self.names[Self.place(of: name.route)] = (request.host, name)
    }

    private static func place(of route: String) -> Int {
        var sum: UInt8 = 0
        let bytes = route.utf8.span
        for index in bytes.indices { sum &+= bytes[index] }
        return Int(sum) % self.places
    }
}
