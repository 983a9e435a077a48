import TrafficModel

/// One socket as the ledger knows it: the last observation, and what each process moved over it.
struct SocketAccount {
    /// A process may stand in the socket's own record and, when several threads came at once, in the map of further owners too.
    private struct Share {
        var inRecord = PayloadBytes()
        var inMap = PayloadBytes()

        var payload: PayloadBytes { self.inRecord + self.inMap }
    }

    /// What an observation added.
    struct Growth {
        var owners: [(owner: OwnerObservation, payload: PayloadBytes)] = []
        var unowned = PayloadBytes()
        var retransmitted: UInt64 = 0
        var scope: SocketScope?
        /// This was the socket's last word.
        var isEnd = false

        var payload: PayloadBytes { self.owners.reduce(self.unowned) { $0 + $1.payload } }
    }

    private(set) var observation: SocketObservation
    private(set) var isClosed = false
    private var shares: [ProcessIdentity: Share] = [:]
    private var unowned = PayloadBytes()
    /// The kernel counts retransmissions from a connection's start; of a preexisting one only what came after counts.
    private let retransmittedBaseline: UInt64
    private var retransmitted: UInt64 = 0

    private var payload = PayloadBytes()
    private var meter = RateMeter()

    init(_ observation: SocketObservation) {
        self.observation = observation
        self.retransmittedBaseline = observation.preexisting ? observation.tcp?.retransmittedBytes ?? 0 : 0
    }

    var scope: SocketScope? {
        SocketScope(local: self.observation.local.address, remote: self.observation.remote.address)
    }

    var owners: some Collection<ProcessIdentity> { self.shares.keys }

    var bytes: ByteCounts {
        ByteCounts(
            payload: self.payload,
            pendingSent: self.observation.pendingSent ?? 0,
            retransmitted: self.observation.tcp.map { _ in self.retransmitted }
        )
    }

    /// Takes a later, equal or earlier observation of the same socket. Counters only rise; of the rest the last word counts, but
    /// what came after the end does not reopen a socket.
    mutating func absorb(_ observation: SocketObservation) -> Growth {
        var growth = Growth()
        if !self.isClosed {
            self.observation = observation
            self.isClosed = observation.closedBoottimeNanoseconds != nil
            growth.isEnd = self.isClosed
        }
        growth.scope = self.scope
        // Two slots of one process are added up before they are compared with what is known.
        var totals: [ProcessIdentity: OwnerObservation] = [:]
        for owner in observation.owners {
            totals[owner.identity, default: owner.withoutPayload].payload += owner.payload
        }
        for owner in totals.values {
            let known = self.shares[owner.identity, default: Share()].inRecord
            let grown = owner.payload.growth(since: known)
            self.shares[owner.identity, default: Share()].inRecord = known + grown
            growth.owners.append((owner.withoutPayload, grown))
        }
        growth.unowned = observation.unowned.growth(since: self.unowned)
        self.unowned += growth.unowned
        if let tcp = observation.tcp {
            let total = max(tcp.retransmittedBytes, self.retransmittedBaseline) - self.retransmittedBaseline
            growth.retransmitted = total > self.retransmitted ? total - self.retransmitted : 0
            self.retransmitted += growth.retransmitted
        }
        self.payload += growth.payload
        return growth
    }

    /// Takes a further owner's cumulative counters.
    mutating func absorb(_ owner: OwnerObservation) -> Growth {
        let known = self.shares[owner.identity, default: Share()].inMap
        let grown = owner.payload.growth(since: known)
        self.shares[owner.identity, default: Share()].inMap = known + grown
        self.payload += grown
        return Growth(owners: [(owner.withoutPayload, grown)], scope: self.scope)
    }

    mutating func tick(seconds: Double) {
        self.meter.tick(self.bytes.payloadSoFar, seconds: seconds)
    }

    /// - Parameter bootedAt: Wall clock at `CLOCK_BOOTTIME` 0.
    func usage(bootedAt: Int64) -> SocketUsage {
        let seen = self.observation
        let wall = { (boottime: UInt64) in Timestamp(nanosecondsSinceEpoch: bootedAt + Int64(clamping: boottime)) }
        return SocketUsage(
            serial: seen.serial,
            cookie: seen.cookie,
            transport: seen.transport,
            family: seen.family,
            local: seen.local,
            remote: seen.remote,
            role: seen.role,
            scope: self.scope,
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
            owners: self.shares.map { SocketUsage.Owner(identity: $0.key, payload: $0.value.payload) }
                .sorted {
                    ($0.identity.pid, $0.identity.startBoottimeNanoseconds) < (
                        $1.identity.pid, $1.identity.startBoottimeNanoseconds
                    )
                }
        )
    }
}

extension OwnerObservation {
    fileprivate var withoutPayload: OwnerObservation {
        var copy = self
        copy.payload = PayloadBytes()
        return copy
    }
}
