import TrafficEvents
import TrafficModel

/// One socket as the ledger knows it: the last observation, and what each process moved over it.
struct SocketAccount: Codable {
    /// The bytes of one process.
    struct Share: Codable {
        var payload = PayloadBytes()
        var wire = WireTotals()
    }

    typealias WireShare = (process: ProcessIdentity, uid: UInt32?, wire: WireTotals)

    /// What an observation added.
    struct Growth {
        /// In the order of the record.
        var owners: [(owner: OwnerObservation, payload: PayloadBytes)] = []
        /// The owner who sent most of this; of those who sent as much, the one who has sent most so far.
        var sender: OwnerObservation?
        /// The owners that did not use the socket before.
        var newOwners: [ProcessIdentity] = []
        var unowned = PayloadBytes()
        var retransmitted: UInt64 = 0
        /// `nil` where wire bytes are not known.
        var wire: WireTotals?
        /// The same wire bytes, by process. Bytes of a socket that no process has used yet are missing here, and come
        /// later. `uid`: the user of the process; `nil` if the socket's record does not name the process.
        var wireShares: [WireShare] = []
        /// `nil` where the socket has no remote address.
        var ends: SocketEnds?
        var destination: Destination?
        /// A counter of an open socket was lower than before.
        var isBackwards = false
        /// This was the last observation of the socket.
        var isEnd = false
        /// The socket was presumed closed, and is open after all.
        var isReopened = false
        /// The socket had closed before this growth.
        var wasClosed = false
        /// The socket is listed as a closed one from now on, and must leave the list in its turn.
        var mustLeave = false

        var payload: PayloadBytes { self.owners.reduce(self.unowned) { $0 + $1.payload } }
        /// The growth of the whole socket.
        var bytes: ByteCounts {
            ByteCounts(
                payload: self.payload,
                wireSent: self.wire?.sent,
                wireReceived: self.wire?.received,
                wireEstimated: self.wire?.estimated ?? 0,
                retransmitted: self.retransmitted
            )
        }
    }

    /// ``SocketTable`` shows how a socket gets from one to the next.
    private enum Phase: UInt8, Codable {
        case open, ended, presumed, recoverable
    }

    private(set) var observation: SocketObservation
    private var phase = Phase.open
    /// `nil` for a socket without a remote address.
    private var ends: SocketEnds?
    /// Where the growth counts; `nil` until that is decided, and for a socket without a remote address.
    private(set) var destination: Destination?
    private(set) var shares: [ProcessIdentity: Share] = [:]
    private var unowned = PayloadBytes()
    /// The kernel counts retransmissions from a connection's start. Of a preexisting connection, only later
    /// retransmissions count.
    private let retransmittedBaseline: UInt64
    private var retransmitted: UInt64 = 0
    private let wireBaseline: SocketWire
    private var wire: SocketWire?
    /// As ``WireTotals/estimated``. What was counted before the quality became worse stays what it was.
    private var estimatedWire: UInt64 = 0
    /// Wire bytes that belong to no process yet.
    private var unclaimedWire = WireTotals()

    private var payload = PayloadBytes()
    private var inRows = PayloadBytes()
    private var meter = RateMeter()

    init(_ observation: SocketObservation) {
        self.observation = observation
        self.retransmittedBaseline = observation.preexisting ? observation.tcp?.retransmittedBytes ?? 0 : 0
        // TCP's counters are those of the whole connection. Packets and datagrams are counted from the start of the capture
        // on.
        let isByTCP = observation.transport == .tcp && observation.wire?.quality != .exact
        let hasEarlierBytes = isByTCP && observation.preexisting
        self.wireBaseline = hasEarlierBytes ? observation.wire ?? SocketWire() : SocketWire()
    }

    var isClosed: Bool { self.phase != .open }

    /// The ledger closed the socket because it was missing. Nothing in the kernel has said so yet.
    var isPresumed: Bool { self.phase == .presumed || self.phase == .recoverable }

    var isListed: Bool { self.phase != .recoverable }

    /// A presumed socket leaves the list.
    mutating func becomeRecoverable() { self.phase = .recoverable }

    /// - Returns: Whether the socket was not listed.
    mutating func returnToList() -> Bool {
        guard !self.isListed else { return false }
        self.phase = .presumed
        return true
    }

    /// Sets the destination, unless the socket's addresses have changed meanwhile.
    mutating func decide(_ destination: Destination, over ends: SocketEnds) {
        if ends == self.ends { self.destination = destination }
    }

    /// The classes of addresses may be others than when the destination was decided.
    mutating func renewClass(_ classes: AddressClasses) {
        if let ends { self.destination?.addressClass = classes.name(of: ends.remote.address) }
    }

    private mutating func updateEnds() {
        let ends = SocketEnds(local: self.observation.local, remote: self.observation.remote)
        // A dissolved connection (connect(2) to AF_UNSPEC) moves no more bytes. Bytes that are still counted went to
        // the old address.
        if ends.remote.address.isUnspecified && self.ends != nil && self.observation.transport.hasConnections { return }
        let news = ends.remote.address.isUnspecified ? nil : ends
        guard news != self.ends else { return }
        self.ends = news
        self.destination = nil
    }

    /// Whether it is open, has these addresses, and has moved no payload.
    func isUnused(over ends: SocketEnds) -> Bool {
        !self.isClosed && ends == self.ends && (self.payload + self.inRows).total == 0
    }

    /// `nil` for a socket without a remote address.
    var endsKey: EndsIndex.Key? { self.ends.map { EndsIndex.Key($0, self.observation.transport) } }

    var owners: some Collection<ProcessIdentity> { self.shares.keys }

    func isOwned(by process: ProcessIdentity) -> Bool { self.shares[process] != nil }

    var bytes: ByteCounts {
        ByteCounts(
            payload: self.payload + self.inRows,
            pendingSent: self.observation.pendingSent ?? 0,
            wireSent: self.wire?.sent.total,
            wireReceived: self.wire?.received.total,
            wireEstimated: self.estimatedWire,
            retransmitted: self.observation.tcp.map { _ in self.retransmitted }
        )
    }

    /// Takes a later, equal or earlier observation of the same socket. Counters only rise. For all other fields the
    /// last observation counts. An observation after the end does not reopen the socket, unless the end was only
    /// presumed.
    ///
    /// - Parameter isPresumed: As for ``SocketTable/absorb(_:isPresumed:)``.
    mutating func absorb(_ observation: SocketObservation, isPresumed: Bool) -> Growth {
        var growth = Growth()
        if observation.isOlder(than: self.observation) {
            // The later observation has all that this one says.
            (growth.wasClosed, growth.ends, growth.destination) = (self.isClosed, self.ends, self.destination)
            return growth
        }
        if self.isPresumed && observation.closedBoottimeNanoseconds == nil {
            growth.isReopened = true
            self.phase = .open
        }
        let wasClosed = self.isClosed
        if !wasClosed {
            self.observation = observation
            growth.isEnd = observation.closedBoottimeNanoseconds != nil
            if growth.isEnd { self.phase = isPresumed ? .presumed : .ended }
            self.updateEnds()
        } else if !isPresumed {
            // The record of the end of a presumed socket.
            self.phase = .ended
        }
        growth.wasClosed = wasClosed
        growth.ends = self.ends
        growth.destination = self.destination
        // First the slots of one process are added up, then they are compared with what is known, in the order of the
        // record, where the first user of the socket comes first.
        var totals: [ProcessIdentity: OwnerObservation] = [:]
        for owner in observation.owners {
            totals[owner.identity, default: owner.withoutPayload].payload += owner.payload
        }
        let isEachOnce = totals.count == observation.owners.count
        var most = (grown: UInt64(0), ever: UInt64(0))
        for slot in observation.owners {
            guard isEachOnce || !growth.owners.contains(where: { $0.owner.identity == slot.identity }),
                let owner = totals[slot.identity]
            else { continue }
            if self.shares[owner.identity] == nil { growth.newOwners.append(owner.identity) }
            let known = self.shares[owner.identity, default: Share()].payload
            growth.isBackwards = growth.isBackwards || !wasClosed && owner.payload.isBehind(known)
            let grown = owner.payload.growth(since: known)
            self.shares[owner.identity, default: Share()].payload = known + grown
            growth.owners.append((owner.withoutPayload, grown))
            let sent = (grown: grown.sent, ever: owner.payload.sent)
            if growth.sender == nil || sent > most { (growth.sender, most) = (owner.withoutPayload, sent) }
        }
        growth.isBackwards = growth.isBackwards || !wasClosed && observation.unowned.isBehind(self.unowned)
        growth.unowned = observation.unowned.growth(since: self.unowned)
        self.unowned += growth.unowned
        if let tcp = observation.tcp {
            let total = tcp.retransmittedBytes -| self.retransmittedBaseline
            growth.retransmitted = total -| self.retransmitted
            self.retransmitted += growth.retransmitted
        }
        self.payload += growth.payload
        if let inRows = observation.inRows { self.inRows += inRows.growth(since: self.inRows) }
        self.absorb(observation.wire, of: totals, into: &growth)
        return growth
    }

    /// - Parameter owners: Those that the record names.
    private mutating func absorb(
        _ seen: SocketWire?,
        of owners: [ProcessIdentity: OwnerObservation],
        into growth: inout Growth
    ) {
        guard let seen else { return }
        let sent = seen.sent.growth(since: self.wireBaseline.sent)
        let received = seen.received.growth(since: self.wireBaseline.received)
        let known = self.wire ?? SocketWire()
        let grown = SocketWire(
            sent: sent.growth(since: known.sent),
            received: received.growth(since: known.received),
            quality: seen.quality
        )
        self.wire = SocketWire(
            sent: known.sent + grown.sent,
            received: known.received + grown.received,
            quality: seen.quality
        )
        growth.wire = grown.total
        self.estimatedWire +|= grown.total.estimated
        self.unclaimedWire += grown.total
        guard !self.shares.isEmpty || growth.isEnd else { return }
        growth.wireShares = self.claim(owners)
        for (process, _, share) in growth.wireShares { self.shares[process]?.wire += share }
    }

    /// Gives the unclaimed wire bytes to the socket's processes, in proportion to what each process has moved over the
    /// socket so far. The part of processes that the socket had no room for stays without a process. If a socket ended
    /// without any process (a connection that was never accepted), the kernel gets these bytes.
    private mutating func claim(_ owners: [ProcessIdentity: OwnerObservation]) -> [WireShare] {
        defer { self.unclaimedWire = WireTotals() }
        let weights = self.shares.map { (process: $0.key, bytes: $0.value.payload.total) }
            .sorted { ($0.bytes, $0.process.pid) > ($1.bytes, $1.process.pid) }
        guard let first = weights.first else { return [(.kernel, nil, self.unclaimedWire)] }
        let sum = weights.reduce(self.inRows.total) { $0 +| $1.bytes }
        let share = { [wire = self.unclaimedWire] (bytes: UInt64) in
            let (sent, received) = (wire.sent.share(bytes, of: sum), wire.received.share(bytes, of: sum))
            let estimated = min(wire.estimated.share(bytes, of: sum), sent +| received)
            return WireTotals(sent: sent, received: received, estimated: estimated)
        }
        var rest = self.unclaimedWire.growth(since: share(self.inRows.total))
        var claims: [WireShare] = []
        for (process, bytes) in weights.dropFirst() {
            let claim = share(bytes)
            claims.append((process, owners[process]?.uid, claim))
            rest = rest.growth(since: claim)
        }
        // Each number is rounded for itself, and nobody has more estimated bytes than bytes.
        var surplus = rest.estimated -| (rest.sent +| rest.received)
        rest.estimated -= surplus
        for index in claims.indices where surplus > 0 {
            let share = claims[index].wire
            let more = min(surplus, share.sent +| share.received -| share.estimated)
            claims[index].wire.estimated += more
            surplus -= more
        }
        // The process that moved most gets the remainder of the division.
        return [(first.process, owners[first.process]?.uid, rest)] + claims
    }

    /// A last observation that the ledger makes itself, because the capture gave none.
    func lastObservation(at boottime: UInt64) -> SocketObservation {
        var last = self.observation
        last.state = .closed
        last.closedBoottimeNanoseconds = boottime
        last.pendingSent = nil
        return last
    }

    /// - Returns: Whether the next tick may change the rates.
    mutating func tick(seconds: Double) -> Bool {
        self.meter.tick(self.bytes.payloadSoFar, seconds: seconds)
        return self.meter.rates != PayloadRates()
    }

    var evidence: SocketEvidence {
        SocketEvidence(
            payload: self.bytes.payload,
            pendingSent: self.observation.pendingSent ?? 0,
            retransmitted: self.retransmitted,
            wire: self.wire,
            stream: self.observation.stream,
            isListener: self.observation.role == .listener,
            isClosed: self.isClosed,
            preexisting: self.observation.preexisting
        )
    }

    /// Who moved bytes over the socket, made it, or holds it.
    private func users(
        _ holders: SocketTable.Holders?,
        _ hasEnded: (ProcessIdentity) -> Bool
    ) -> [SocketUsage.Owner] {
        var users = self.shares.map { process, share in
            var owner = SocketUsage.Owner(identity: process, payload: share.payload, wire: share.wire)
            owner.isFormer = !self.isClosed && (hasEnded(process) || holders?.former.contains(process) == true)
            return owner
        }
        for holder in Set(holders?.others ?? []) where !self.isOwned(by: holder) && !hasEnded(holder) {
            users.append(SocketUsage.Owner(identity: holder, payload: PayloadBytes()))
        }
        return users
    }

    /// - Parameters:
    ///   - bootedAt: Wall clock at `CLOCK_BOOTTIME` 0.
    ///   - holders: `nil`: who used the socket holds it.
    ///   - hasEnded: Whether a process has ended.
    func usage(
        bootedAt: Int64,
        holders: SocketTable.Holders? = nil,
        hasEnded: (ProcessIdentity) -> Bool = { _ in false }
    ) -> SocketUsage {
        let seen = self.observation
        let wall = { (boottime: UInt64) in Timestamp(nanosecondsSinceEpoch: bootedAt +| Int64(clamping: boottime)) }
        var usage = SocketUsage(
            serial: seen.serial,
            cookie: seen.cookie,
            transport: seen.transport,
            family: seen.family,
            local: seen.local,
            remote: seen.remote,
            role: seen.role,
            scope: self.destination?.scope,
            addressClass: self.destination?.addressClass,
            state: seen.state,
            openedAt: seen.openedBoottimeNanoseconds.map(wall),
            closedAt: seen.closedBoottimeNanoseconds.map(wall),
            preexisting: seen.preexisting,
            networkNamespace: seen.networkNamespace,
            bytes: self.bytes,
            rates: self.meter.rates,
            segmentsSent: seen.tcp?.segmentsSent,
            segmentsReceived: seen.tcp?.segmentsReceived,
            retransmittedSegments: seen.tcp?.retransmittedSegments,
            smoothedRoundTripMicroseconds: seen.tcp?.smoothedRoundTripMicroseconds,
            connectMicroseconds: seen.connect.map { $0.duration / 1_000 },
            wireQuality: self.wire?.quality,
            owners: self.users(holders, hasEnded).sorted {
                ($0.identity.pid, $0.identity.startBoottimeNanoseconds) < (
                    $1.identity.pid, $1.identity.startBoottimeNanoseconds
                )
            }
        )
        usage.ownersInferred = seen.ownersInferred
        usage.evidence = self.evidence
        return usage
    }
}

extension UInt64 {
    /// This, times `part` / `whole`, rounded down.
    fileprivate func share(_ part: UInt64, of whole: UInt64) -> UInt64 {
        whole == 0 ? 0 : whole.dividingFullWidth(self.multipliedFullWidth(by: part)).quotient
    }
}

extension OwnerObservation {
    fileprivate var withoutPayload: OwnerObservation {
        var copy = self
        copy.payload = PayloadBytes()
        return copy
    }
}
