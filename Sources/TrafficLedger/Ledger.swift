public import TrafficEvents
import TrafficLimits
public import TrafficModel

/// Events in, totals out.
///
/// Pure: no clock, no I/O. The same events give the same totals, whichever capture method or file they come from.
/// Counters in events are cumulative for each {socket, process}. So an event that comes twice, late or never changes
/// nothing. ``credit(_:of:)`` credits the growth of a counter to the process, the scope, the class and the total. Rows
/// and packets of no socket are credited separately. Nothing is ever subtracted.
///
/// `Codable` for ``checkpoint()`` alone: another encoder may round times.
public struct Ledger: Sendable, Codable {
    /// The end of a round.
    struct Moment: Codable {
        var wall: Timestamp
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var boottime: UInt64
    }

    private var configuration: LedgerConfiguration
    private(set) var sockets = SocketTable()
    private(set) var processes: ProcessTable
    private(set) var interfaces = InterfaceAccounts()
    private(set) var loss = CaptureLoss()
    /// The part of `loss` from before the present capture.
    private var earlierLoss = CaptureLoss()
    private(set) var totals = ByteCounts(retransmitted: 0)
    /// The part of `totals` that no process has: as ``GroupTotals/unowned``.
    private(set) var unowned = ByteCounts()
    private(set) var totalMeter = RateMeter()
    private(set) var destinations: DestinationTotals
    private(set) var lastTick: Moment?
    /// The last look since that tick.
    private(set) var lastLook: Moment?
    private(set) var countersBackwards: UInt64 = 0
    /// The generation of the rows that were absorbed last.
    private var rowGeneration: UInt64 = 0
    private(set) var forgottenSockets = ForgottenSockets()
    private(set) var reports = ReportAccounts()
    private var contacts = ContactLog()
    /// When the series began, if that is not when the count began.
    private(set) var seriesSince: Timestamp?

    /// - Parameter classes: Classes of remote addresses. Each class has a sum of its own.
    public init(retention: Retention = Retention(), classes: AddressClasses = AddressClasses()) {
        let configuration = LedgerConfiguration(retention: retention, classes: classes)
        self.configuration = configuration
        self.destinations = DestinationTotals(configuration)
        self.processes = ProcessTable(configuration)
    }

    init(_ sums: LedgerSums, _ configuration: LedgerConfiguration) {
        self.init(retention: configuration.retention, classes: configuration.classes)
        let balance = sums.balance
        self.lastTick = Moment(wall: balance.takenAt, boottime: balance.takenBoottimeNanoseconds)
        self.seriesSince = balance.takenAt
        (self.totals, self.unowned) = (balance.bytes, balance.groups.withoutProcess)
        self.destinations.goOn(with: balance)
        self.processes = ProcessTable(
            configuration,
            goingOnWith: balance.groups,
            endedProcesses: sums.endedProcesses,
            lastLife: sums.lastLife
        )
        (self.loss, self.earlierLoss) = (sums.loss, sums.loss)
        self.countersBackwards = sums.loss.countersBackwards
    }

    /// All that was counted as lost, but for what the reports lost.
    var wholeLoss: CaptureLoss {
        var loss = self.loss
        loss.countersBackwards = self.countersBackwards
        return loss
    }

    var retention: Retention { self.configuration.retention }

    /// Goes on with other settings: the limits are in force at the next tick, and the classes for bytes that are credited
    /// from now on. A class that is new begins at 0. The sum of a class that is gone is forgotten.
    public mutating func configure(retention: Retention, classes: AddressClasses) {
        let configuration = LedgerConfiguration(retention: retention, classes: classes)
        self.configuration = configuration
        self.destinations.configuration = configuration
        self.processes.configure(configuration)
        self.destinations.renewClasses()
        self.sockets.renewClasses(classes)
    }

    /// After a restore: the ledger knows nothing of the time since the checkpoint.
    mutating func resume() {
        self.processes.askAgain()
        self.reports.resume()
        self.sockets.resume()
    }

    /// Goes on with another capture, which knows nothing of the last one. Its sockets may have the serials of other
    /// sockets of the last one, so those leave the list; all that they moved stays counted. A socket that is still open
    /// is listed again as one that is older than the capture.
    ///
    /// - Parameter uncountedNanoseconds: How long nothing counted in between.
    public mutating func changeCapture(uncountedNanoseconds: UInt64) {
        for serial in Array(self.sockets.accounts.keys) { self.closeWithoutRecord(serial) }
        self.decideDestinations(at: .end)
        for socket in self.sockets.accounts.values { self.keepForAudits(socket) }
        self.sockets = SocketTable()
        self.rowGeneration = 0
        self.loss.uncountedNanoseconds +|= uncountedNanoseconds
        self.earlierLoss = self.loss
    }

    public mutating func absorb(_ event: CaptureEvent) {
        switch event {
        case .socket(let observation):
            self.absorb(observation)
        case .rows(let rows):
            self.absorb(rows)
        case .closedWithoutRecord(let serials):
            for serial in serials { self.closeWithoutRecord(serial) }
        case .missing(let serials):
            for serial in serials { self.presumeClosed(serial) }
        case .census(let census):
            for serial in self.sockets.note(census) { self.presumeClosed(serial) }
        case .holders(let held):
            self.absorb(held)
        case .details(let process, let details):
            self.processes.resolve(process, as: details)
        case .usersNamed(let names):
            self.processes.nameUsers(names)
        case .executed(let process, let execution):
            self.processes.executed(process, execution)
        case .executionsMissed:
            self.processes.doubtNames()
        case .exited(let process, let time):
            self.reports.end(process: process)
            if self.processes.end(process, at: time, boottime: self.lastTick?.boottime ?? 0) {
                self.foldEndedProcesses()
            }
        case .interfaces(let usages):
            self.interfaces.absorb(usages)
        case .interfacesGone(let usages):
            self.interfaces.absorbLast(usages)
        case .packets(let packets):
            self.creditToKernel(self.interfaces.absorb(packets))
        case .hostAddresses(let addresses):
            self.destinations.absorb(addresses)
        case .loss(let loss):
            self.loss = self.earlierLoss + loss
        case .reports(let reports, let dropped):
            guard !reports.isEmpty || self.reports.isNews(dropped: dropped) || self.reports.isWaiting else { return }
            let round = ReportRound(processes: self.processes.accounts.values, bootedAt: self.bootedAt)
            swap(&round.sockets, &self.sockets)
            defer { swap(&round.sockets, &self.sockets) }
            self.reports.absorb(reports, dropped: dropped, round: round, processes: &self.processes)
        case .tick(let wall, let boottime):
            self.tick(wall: wall, boottime: boottime)
        case .look(let wall, let boottime):
            self.look(wall: wall, boottime: boottime)
        }
    }

    /// Processes that the ledger saw since the last call for the first time or under a new name, and processes whose
    /// details or name are in doubt. The caller should look up their details, and absorb them as
    /// ``CaptureEvent/details(_:_:)``.
    public mutating func takeUnresolved() -> [OwnerObservation] {
        self.processes.takeUnresolved()
    }

    /// Counting ends, and nothing more will be found out: puts the bytes of every process into a group, and decides every
    /// undecided destination.
    public mutating func decideAll() {
        self.processes.groupAll()
        self.decideDestinations(at: .end)
    }

    /// From now on the ledger collects whom processes reach, or no longer does.
    ///
    /// - Parameter localPorts: The ports that the kernel gives to clients; `nil`: nobody asks.
    public mutating func watchContacts(from localPorts: ClosedRange<UInt16>?) {
        self.contacts.watch(from: localPorts)
    }

    /// What processes have reached since the last call.
    public mutating func takeContacts() -> ContactSums { self.contacts.take(self.processes) }

    private mutating func absorb(_ observation: SocketObservation, isPresumed: Bool = false) {
        let growth = self.sockets.absorb(observation, isPresumed: isPresumed)
        // The poll method computes its counters from several counters, which are not of one moment.
        if growth.isBackwards && observation.stream != nil { self.countersBackwards += 1 }
        self.credit(growth, of: observation.serial)
        guard growth.mustLeave else { return }
        let surplus = self.sockets.queue(
            observation.serial,
            of: observation.payer,
            within: self.retention.closedSocketLimit
        )
        self.forget(surplus)
    }

    /// Processes hold sockets, whether they moved bytes over them or not. Whoever holds one has a row.
    private mutating func absorb(_ held: [SocketHolders]) {
        for socket in self.sockets.hold(held) { for holder in socket.others { self.processes.note(holder: holder) } }
    }

    /// Credits rows: bytes of no listed socket.
    private mutating func absorb(_ rows: FoldedRows) {
        guard rows.generation > self.rowGeneration else { return }
        self.rowGeneration = rows.generation
        for row in rows.processes {
            self.processes.credit(row, at: self.lastTick?.boottime ?? 0)
            self.count(row)
        }
        for row in rows.users {
            self.processes.credit(row, ofUser: row.owner.uid)
            self.count(row)
        }
        if let common = rows.common {
            self.processes.credit(common, ofUser: nil)
            self.count(common)
        }
    }

    private mutating func count(_ row: FoldedRows.Row) {
        self.totals.payload += row.owner.payload
        self.totals.add(wire: row.wire)
        self.totals.retransmitted = (self.totals.retransmitted ?? 0) +| row.retransmitted
        self.forgottenSockets.add(row)
    }

    /// The socket was missing too often. If the ledger sees the socket again, its account goes on.
    private mutating func presumeClosed(_ serial: UInt64) {
        guard let account = self.sockets[serial], !account.isClosed else { return }
        self.absorb(account.lastObservation(at: self.lastTick?.boottime ?? 0), isPresumed: true)
    }

    /// The socket closed without a record, and rows have what it moved since its last observation. TCP's own account
    /// and the packets of that time are gone.
    private mutating func closeWithoutRecord(_ serial: UInt64) {
        if let recoverable = self.sockets.takeRecoverable(serial) { return self.forget([recoverable]) }
        guard let account = self.sockets[serial], !account.isClosed else { return }
        var last = account.lastObservation(at: self.lastTick?.boottime ?? 0)
        last.stream?.isPartial = true
        self.absorb(last)
    }

    /// Credits the growth of a socket's counters.
    private mutating func credit(_ growth: SocketAccount.Growth, of serial: UInt64) {
        // No process can have used the socket earlier than this.
        let opened = self.sockets[serial]?.observation.openedBoottimeNanoseconds ?? 0
        for (owner, payload) in growth.owners {
            if payload.total > 0 || growth.newOwners.contains(owner.identity) {
                self.processes.credit(payload, to: owner, at: opened)
            } else {
                self.processes.note(owner)
            }
        }
        if growth.retransmitted > 0 {
            // Retransmissions belong to the socket. If several processes use the socket, the process that sends most
            // caused them.
            if let sender = growth.sender {
                self.processes.credit(retransmitted: growth.retransmitted, to: sender.identity, ofUser: sender.uid)
            } else {
                self.unowned.retransmitted = (self.unowned.retransmitted ?? 0) +| growth.retransmitted
            }
            self.totals.retransmitted = (self.totals.retransmitted ?? 0) +| growth.retransmitted
        }
        if let wire = growth.wire {
            self.totals.add(wire: wire)
            self.unowned.add(wire: wire)
            for (process, uid, share) in growth.wireShares {
                self.unowned.remove(wire: share)
                self.processes.credit(share, to: process, ofUser: uid)
            }
        }
        self.totals.payload += growth.payload
        self.unowned.payload += growth.unowned
        if let ends = growth.ends { self.credit(growth, of: serial, over: ends) }
    }

    /// Credits the growth to the scope and the class, and notes whom the socket's processes reached.
    private mutating func credit(_ growth: SocketAccount.Growth, of serial: UInt64, over ends: SocketEnds) {
        var destination = growth.destination
        if let destination { self.destinations.add(growth.bytes, to: destination) }
        guard destination == nil || self.contacts.localPorts != nil else { return }
        let socket = self.sockets[serial]?.observation
        if destination == nil {
            let user = growth.owners.first.map { PayingUser($0.owner.uid) } ?? socket?.payer ?? PayingUser(0)
            destination = self.destinations.credit(
                growth.bytes,
                of: .init(serial: serial, ends: ends),
                .init(socket, of: user),
                among: self.sockets.endsIndex
            )
            if let destination { self.sockets.change(serial) { $0.decide(destination, over: ends) } }
        }
        if self.contacts.localPorts != nil, let socket {
            self.contacts.add(growth, of: serial, socket, at: destination)
        }
    }

    /// Packets of no socket.
    private mutating func creditToKernel(_ wire: WireTotals) {
        self.totals.add(wire: wire)
        self.processes.credit(wire, to: .kernel, ofUser: nil)
    }

    private mutating func tick(wall: Timestamp, boottime: UInt64) {
        self.decideDestinations(at: .tick)
        // A clock that did not move on gives no rate: the next tick covers both intervals.
        if let last = self.lastTick?.boottime, boottime == last { return }
        // The clock does not go back. If it seems to, one of the two readings was wrong, and the length of this
        // interval is unknown.
        let seconds = self.lastTick.map { boottime > $0.boottime ? Double(boottime - $0.boottime) / 1e9 : 0 } ?? 0
        self.lastTick = Moment(wall: wall, boottime: boottime)
        self.lastLook = nil
        self.forgetClosedSockets(boottime: boottime)
        self.surveyPending()
        self.sockets.tick(seconds: seconds)
        self.processes.tick(at: boottime, seconds: seconds)
        self.totalMeter.tick(self.totals.payloadSoFar, seconds: seconds)
        self.interfaces.tick(seconds: seconds)
        self.reports.tick()
        let age = self.retention.exitedProcesses.nanoseconds
        self.foldEndedProcesses(before: boottime > age ? boottime - age : 0)
    }

    /// Updates everything for a moment between two ticks, except what needs two ticks or ages by ticks.
    private mutating func look(wall: Timestamp, boottime: UInt64) {
        self.decideDestinations(at: .look)
        // A look that is not later than the last tick has nothing to update: the state is at least that new.
        guard let last = self.lastTick, boottime > last.boottime else { return }
        self.lastLook = Moment(wall: wall, boottime: boottime)
        self.surveyPending()
        self.reports.summarize()
        self.foldEndedProcesses()
    }

    private mutating func decideDestinations(at occasion: DestinationTotals.Occasion) {
        for (socket, destination) in self.destinations.decide(at: occasion, among: self.sockets) {
            self.sockets.change(socket.serial) { $0.decide(destination, over: socket.ends) }
            self.contacts.decide(destination, of: socket.serial, to: socket.ends.remote.address)
        }
        self.contacts.forgetUndecided()
    }

    private mutating func forgetClosedSockets(boottime: UInt64) {
        let retention = self.retention
        // First, to make room for those that leave the list.
        self.sockets.forgetLate(
            closedBefore: boottime -| retention.lateSockets.nanoseconds,
            within: retention.lateSocketLimit
        )
        let closed = self.sockets.takeClosed(
            listedSince: boottime -| retention.closedSockets.nanoseconds,
            at: boottime,
            within: retention.closedSocketLimit
        )
        self.forget(closed)
    }

    /// The sockets are closed for good. What late reports are checked against stays, and what audits need.
    private mutating func forget(_ sockets: [SocketAccount]) {
        for socket in sockets {
            // A presumed socket closed long ago, so no report is on its way.
            let user = socket.isPresumed ? nil : self.reports.payer(ofLateReportsOf: socket, in: self.processes)
            self.sockets.keepLate(socket, of: user, within: self.retention.lateSocketLimit)
            self.keepForAudits(socket)
        }
    }

    private mutating func keepForAudits(_ socket: SocketAccount) {
        let evidence = socket.evidence
        let whole = evidence.tallies
        self.forgottenSockets.add(whole)
        if whole.isDisputed { self.forgottenSockets.keepDisputed(socket, bootedAt: self.bootedAt) }
        for (process, share) in socket.shares {
            self.processes.change(process) {
                $0.addForgotten(evidence.part(of: whole, payload: share.payload, wire: share.wire))
            }
        }
    }

    /// Counts the bytes that are pending at this moment.
    private mutating func surveyPending() {
        self.processes.forgetPending()
        self.totals.pendingSent = 0
        self.destinations.forgetPending()
        for (pending, owner, destination) in self.sockets.pendingBytes() {
            if let owner { self.processes.change(owner) { $0.addPending(pending) } }
            self.totals.pendingSent +|= pending
            if let destination { self.destinations.add(ByteCounts(pendingSent: pending), to: destination) }
        }
    }

    /// Takes processes off the list that ended before `moment`, and ended processes beyond the limits.
    private mutating func foldEndedProcesses(before moment: UInt64 = 0) {
        let folded = self.processes.fold(endedBefore: moment, within: self.retention.exitedProcessLimit)
        for process in folded { self.reports.forget(process: process) }
    }
}
