import TrafficModel

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
