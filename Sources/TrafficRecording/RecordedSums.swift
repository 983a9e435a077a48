import TrafficModel

/// Makes the sums that history and alerts need out of the snapshots of one count, one after the other.
///
/// A process's bytes leave its row when it ends, and come to the row of its group. Here a group's sum gets what each row
/// gained, so it never falls. A sum begins at the first snapshot in which its group is.
struct RecordedSums {
    private struct Process {
        var group: ProcessGroup
        var bytes: ByteCounts
    }

    private var processes: [ProcessIdentity: Process] = [:]
    private var exited: [ProcessGroup: ByteCounts] = [:]
    /// Bytes that have left the rows of processes, and have not come to those of their groups.
    private var underWay: [ProcessGroup: ByteCounts] = [:]
    private var numbers: [ProcessGroup: Int] = [:]
    private var lives: [GroupLife] = []
    private var endpoints: [EndpointGrowth: EndpointCounts] = [:]
    /// The names of users, as the snapshots have them.
    private(set) var users: [UInt32: String] = [:]

    /// For another count, whose numbers begin anew.
    var anew: RecordedSums {
        var sums = RecordedSums()
        sums.users = self.users
        return sums
    }

    /// - Returns: The sums as of the snapshot.
    mutating func add(_ snapshot: Snapshot) -> Balance {
        self.addProcesses(snapshot.processes ?? [])
        self.addExited(snapshot.exited ?? [])
        return Balance(
            takenAt: snapshot.takenAt,
            takenBoottimeNanoseconds: snapshot.takenBoottimeNanoseconds,
            countingSince: snapshot.countingSince,
            uncountedNanoseconds: snapshot.capture.loss.uncountedNanoseconds,
            bytes: snapshot.totals.bytes.settled,
            byScope: snapshot.totals.byScope.mapValues(\.settled),
            byClass: (snapshot.totals.byClass ?? [:]).mapValues(\.settled),
            groups: GroupTotals(lives: self.lives)
        )
    }

    private mutating func addProcesses(_ rows: [ProcessUsage]) {
        var gone = self.processes
        for row in rows {
            let group = ProcessGroup(row.details)
            if let user = row.details.user { self.users[row.details.uid] = user }
            let bytes = row.bytes.settled
            self.credit(bytes.growth(since: gone.removeValue(forKey: row.identity)?.bytes ?? ByteCounts()), group)
            self.processes[row.identity] = Process(group: group, bytes: bytes)
        }
        for (identity, process) in gone {
            self.processes[identity] = nil
            if process.bytes.hasBytes { self.underWay[process.group, default: ByteCounts()] += process.bytes }
        }
    }

    private mutating func addExited(_ rows: [ExitedUsage]) {
        // The rest of a user may have bytes of any of the user's groups, so the groups come first.
        for row in rows.sorted(by: { !$0.group.isRest && $1.group.isRest }) {
            var growth = row.bytes.settled.growth(since: self.exited[row.group] ?? ByteCounts())
            self.exited[row.group] = row.bytes.settled
            let sources =
                row.group.isRest
                ? self.underWay.keys.filter { row.group.uid == nil || $0.uid == row.group.uid } : [row.group]
            for source in sources {
                guard let bytes = self.underWay[source] else { continue }
                let rest = bytes.growth(since: growth)
                self.underWay[source] = rest.hasBytes ? rest : nil
                growth = growth.growth(since: bytes)
            }
            self.credit(growth, row.group)
        }
    }

    private mutating func credit(_ bytes: ByteCounts, _ group: ProcessGroup) {
        let index = self.numbers[group] ?? self.lives.count
        if index == self.lives.count {
            self.numbers[group] = index
            self.lives.append(GroupLife(group: group, number: UInt64(index), beganBoottimeNanoseconds: 0))
        }
        self.lives[index].bytes += bytes
    }

    // MARK: Endpoints

    /// - Returns: What endpoints gained since the last call.
    mutating func endpointGrowth(_ snapshot: Snapshot) -> [EndpointGrowth] {
        (snapshot.endpoints ?? []).compactMap { usage in
            guard case .route(let host, let route) = usage.subject else { return nil }
            var growth = EndpointGrowth(
                process: usage.process,
                role: usage.role,
                host: host,
                route: route,
                counts: EndpointCounts()
            )
            let counts = EndpointCounts(
                requests: usage.requests,
                ended: usage.outcomes.values.reduce(0, +|),
                failures: usage.failures,
                bytes: usage.sent.message &+ usage.received.message
            )
            let earlier = self.endpoints.updateValue(counts, forKey: growth) ?? EndpointCounts()
            guard counts != earlier else { return nil }
            growth.counts = counts.growth(since: earlier)
            return growth
        }
    }
}

extension ProcessGroup {
    fileprivate var isRest: Bool { self == .other(of: self.uid) }
}
