import TrafficModel

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
