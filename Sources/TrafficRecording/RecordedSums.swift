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

    private struct Interface {
        var number: UInt64
        /// What the interface said last.
        var last: InterfaceCounts
        var sum = InterfaceCounts()
    }

    private var processes: [ProcessIdentity: Process] = [:]
    private var exited: [ProcessGroup: ByteCounts] = [:]
    /// Bytes that have left the rows of processes, and have not come to those of their groups.
    private var underWay: [ProcessGroup: ByteCounts] = [:]
    private var numbers: [ProcessGroup: Int] = [:]
    private var lives: [GroupLife] = []
    private var endpointNumbers: [ServiceEndpoint: Int] = [:]
    private var endpoints: [EndpointSum] = []
    /// By name: a snapshot has no index.
    private var interfaces: [String: Interface] = [:]
    private var isFirst = true
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
        for usage in snapshot.endpoints ?? [] { self.addEndpoint(usage) }
        for usage in snapshot.interfaces ?? [] { self.addInterface(usage) }
        self.isFirst = false
        return Balance(
            takenAt: snapshot.takenAt,
            takenBoottimeNanoseconds: snapshot.takenBoottimeNanoseconds,
            countingSince: snapshot.countingSince,
            uncountedNanoseconds: snapshot.capture.loss.uncountedNanoseconds,
            bytes: snapshot.totals.bytes.settled,
            byScope: snapshot.totals.byScope.mapValues(\.settled),
            byClass: (snapshot.totals.byClass ?? [:]).mapValues(\.settled),
            groups: GroupTotals(lives: self.lives),
            endpoints: self.endpoints,
            interfaces: InterfaceTotals(
                lives: self.interfaces.map {
                    InterfaceLife(name: $0.key, number: $0.value.number, counts: $0.value.sum)
                }
            )
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
        // The ledger ends groups of a user who has too many: their rows come to the rest of the user.
        let listed = Set(rows.map(\.group))
        for (group, bytes) in self.exited where !listed.contains(group) {
            self.exited[group] = nil
            if bytes.hasBytes { self.underWay[group, default: ByteCounts()] += bytes }
        }
        // The rest of a user may have bytes of any of the user's groups, so the groups come first.
        for row in rows.sorted(by: { !$0.group.isOther && $1.group.isOther }) {
            var growth = row.bytes.settled.growth(since: self.exited[row.group] ?? ByteCounts())
            self.exited[row.group] = row.bytes.settled
            let sources =
                row.group.isOther
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

    private mutating func addEndpoint(_ usage: EndpointUsage) {
        guard case .route(let host, let route) = usage.subject else { return }
        let sum = EndpointSum(
            endpoint: ServiceEndpoint(process: usage.process, role: usage.role, host: host, route: route),
            counts: EndpointCounts(
                requests: usage.requests,
                ended: usage.outcomes.values.reduce(0, +|),
                failures: usage.failures,
                repeated: usage.repeated,
                sent: usage.sent,
                received: usage.received
            )
        )
        if let index = self.endpointNumbers[sum.endpoint] {
            self.endpoints[index] = sum
        } else {
            self.endpointNumbers[sum.endpoint] = self.endpoints.count
            self.endpoints.append(sum)
        }
    }

    /// What an interface had counted before the first snapshot is in no sum. One that comes later is as old as its
    /// counters. Counters that fall add nothing.
    private mutating func addInterface(_ usage: InterfaceUsage) {
        let now = InterfaceCounts(usage)
        let new = Interface(number: UInt64(self.interfaces.count), last: self.isFirst ? now : InterfaceCounts())
        var interface = self.interfaces[usage.name] ?? new
        interface.sum += now.growth(since: interface.last)
        interface.last = now
        self.interfaces[usage.name] = interface
    }
}
