import TrafficLimits
public import TrafficModel

/// What readers get of the ledger.
extension Ledger {
    /// The status of the capture with what the ledger counted as lost.
    public func withLosses(_ capture: CaptureStatus) -> CaptureStatus {
        var capture = capture
        capture.loss = self.wholeLoss
        capture.reports = self.reports.counters
        capture.loss.reportsDropped = capture.reports.dropped
        capture.loss.reportsRejected = capture.reports.rejected
        return capture
    }

    /// Everything as of the last tick or look. Rates are of the last tick.
    public func reading(
        countingSince: Timestamp,
        host: HostDescription,
        daemon: DaemonDescription,
        capture: CaptureStatus
    ) -> Reading {
        let taken = self.lastLook ?? self.lastTick ?? Moment(wall: countingSince, boottime: 0)
        let bootedAt = self.bootedAt
        let list = ListedSockets(self.sockets, limit: self.retention.openSocketLimit)
        let held = self.sockets.heldByProcess
        let living = Set(self.processes.accounts.values.lazy.filter { $0.exitedAt == nil }.map(\.identity))
        let snapshot = Snapshot(
            takenAt: taken.wall,
            takenBoottimeNanoseconds: taken.boottime,
            countingSince: countingSince,
            host: host,
            daemon: daemon,
            capture: self.withLosses(capture),
            processes: self.processes.accounts.values.map { process in
                var usage = process.usage
                guard usage.state == .running else { return usage }
                usage.socketsOpen = held[process.identity] ?? 0
                usage.endpoints = self.reports.ownEndpoints(of: process.identity)
                return usage
            }.sorted { $0.identity.pid < $1.identity.pid },
            exited: self.processes.exited,
            sockets: list.listed.compactMap {
                let holders = self.sockets.holders(of: $0)
                var usage = self.sockets[$0]?.usage(bootedAt: bootedAt, holders: holders) {
                    // Who has left the list has ended.
                    $0 != .kernel && !living.contains($0)
                }
                usage?.explained = (self.sockets.claims[$0]?.explained ?? PayloadBytes()).total
                return usage
            },
            socketsUnlisted: list.unlisted.isEmpty ? nil : list.unlisted.count,
            endpoints: self.reports.endpointUsages,
            interfaces: self.interfaces.usages,
            totals: Totals(
                bytes: self.totals,
                rates: self.totalMeter.rates,
                byScope: self.destinations.byScope,
                byClass: self.destinations.byClass
            )
        )
        return Reading(
            snapshot: snapshot,
            groupedEndpoints: self.reports.groupedEndpointUsages,
            exchanges: self.reports.exchangeUsages,
            evidence: self.evidence(unlisted: list.unlisted)
        )
    }

    /// The sums as of the last tick or look. Takes time for each process, group and endpoint, and none for sockets and
    /// percentiles.
    public func balance(countingSince: Timestamp) -> Balance {
        var balance = self.balanceOfSockets(countingSince: countingSince)
        balance.endpoints = self.reports.endpointSums
        balance.interfaces = self.interfaces.totals
        return balance
    }

    /// The same without endpoints and interfaces.
    func balanceOfSockets(countingSince: Timestamp) -> Balance {
        let taken = self.lastLook ?? self.lastTick ?? Moment(wall: countingSince, boottime: 0)
        return Balance(
            takenAt: taken.wall,
            takenBoottimeNanoseconds: taken.boottime,
            countingSince: countingSince,
            uncountedNanoseconds: self.loss.uncountedNanoseconds,
            bytes: self.totals.settled,
            byScope: self.destinations.byScope.mapValues(\.settled),
            byClass: (self.destinations.byClass ?? [:]).mapValues(\.settled),
            groups: self.groupTotals
        )
    }

    var groupTotals: GroupTotals { self.processes.totals(unowned: self.unowned) }

    /// What monitoring systems get, as of the last tick or look. Takes time for each process, group and endpoint.
    public func metrics(
        countingSince: Timestamp,
        daemon: DaemonDescription,
        capture: CaptureStatus
    ) -> MetricsReading {
        MetricsReading(
            takenAt: (self.lastLook ?? self.lastTick)?.wall ?? countingSince,
            countingSince: countingSince,
            seriesSince: self.seriesSince,
            daemon: daemon,
            capture: self.withLosses(capture),
            host: MetricsReading.HostSums(
                bytes: self.totals.settled,
                byScope: self.destinations.byScope.mapValues(\.settled),
                byClass: (self.destinations.byClass ?? [:]).mapValues(\.settled)
            ),
            processes: self.processes.seriesSums,
            endpoints: self.reports.seriesSums,
            interfaces: self.interfaces.seriesSums
        )
    }

    /// - Parameter unlisted: Open sockets that the snapshot does not list.
    private func evidence(unlisted: [UInt64]) -> AuditEvidence {
        var forgottenSockets = self.forgottenSockets
        var parts: [ProcessIdentity: AuditTallies] = [:]
        for serial in unlisted {
            guard let socket = self.sockets[serial] else { continue }
            let evidence = socket.evidence
            let whole = evidence.tallies
            forgottenSockets.add(whole)
            if whole.isDisputed { forgottenSockets.keepDisputed(socket, bootedAt: self.bootedAt) }
            for (process, share) in socket.shares {
                parts[process, default: AuditTallies()] +=
                    evidence.part(of: whole, payload: share.payload, wire: share.wire)
            }
        }
        var evidence = forgottenSockets.evidence
        for account in self.sockets.recoverableAccounts {
            evidence.forgottenSockets += account.evidence.tallies
        }
        for process in self.processes.accounts.values {
            var tallies = process.forgottenSockets
            if let part = parts[process.identity] { tallies += part }
            evidence.forgottenSocketsOf[process.identity] = tallies
        }
        evidence.packets = self.interfaces.seen
        evidence.countsInterfaces = !evidence.packets.isEmpty
        return evidence
    }

    /// Wall clock at `CLOCK_BOOTTIME` 0.
    var bootedAt: Int64 {
        self.lastTick.map { $0.wall.nanosecondsSinceEpoch -| Int64(clamping: $0.boottime) } ?? 0
    }
}

/// Which sockets a snapshot lists.
///
/// A user may open a million sockets. To list them all would take seconds and much memory for each snapshot, and the
/// daemon counts nothing meanwhile. So of a user with too many open sockets the list has those that changed in the last
/// interval, and of the others those with the most bytes. The others stay counted everywhere else: in the rows of
/// their processes, in the totals and in audits.
struct ListedSockets {
    /// In the order of their serials.
    private(set) var listed: [UInt64]
    /// Open sockets without a place in the list.
    private(set) var unlisted: [UInt64] = []

    init(_ sockets: SocketTable, limit: Ledger.Retention.Limit) {
        self.listed = sockets.accounts.lazy.filter { $0.value.isListed }.map(\.key).sorted()
        // Closed sockets have a limit of their own.
        guard self.listed.count > limit.ofUser else { return }
        var ofUser: [PayingUser: [(serial: UInt64, isMoving: Bool, bytes: UInt64)]] = [:]
        for (serial, socket) in sockets.accounts where !socket.isClosed {
            ofUser[socket.observation.payer, default: []]
                .append((serial, sockets.moving.contains(serial), socket.bytes.payload.total))
        }
        let places = FairShare.kept(of: ofUser.mapValues(\.count), within: limit)
        for (user, var open) in ofUser {
            let kept = places[user, default: 0]
            guard open.count > kept else { continue }
            open.sort { ($0.isMoving ? 1 : 0, $0.bytes, $1.serial) > ($1.isMoving ? 1 : 0, $1.bytes, $0.serial) }
            self.unlisted += open[kept...].map(\.serial)
        }
        guard !self.unlisted.isEmpty else { return }
        let left = Set(self.unlisted)
        self.listed.removeAll { left.contains($0) }
    }
}
