/// What three witnesses say of one socket: the calls, TCP itself and the packets. Only the audit uses it.
public struct SocketEvidence: Hashable, Sendable {
    public var payload: PayloadBytes
    public var pendingSent: UInt64
    public var retransmitted: UInt64
    public var wire: SocketWire?
    public var stream: TCPStream?
    public var isListener: Bool
    public var isClosed: Bool
    /// The socket is older than the daemon.
    public var preexisting: Bool

    public init(
        payload: PayloadBytes,
        pendingSent: UInt64,
        retransmitted: UInt64,
        wire: SocketWire?,
        stream: TCPStream?,
        isListener: Bool,
        isClosed: Bool,
        preexisting: Bool
    ) {
        self.payload = payload
        self.pendingSent = pendingSent
        self.retransmitted = retransmitted
        self.wire = wire
        self.stream = stream
        self.isListener = isListener
        self.isClosed = isClosed
        self.preexisting = preexisting
    }

    public var tallies: AuditTallies {
        var tallies = AuditTallies()
        tallies.sent = self.sent
        tallies.received = self.received
        return tallies
    }

    /// Whether the witnesses disagree.
    public var isDisputed: Bool { self.tallies.isDisputed }

    /// The lines as one of the socket's processes sees them.
    ///
    /// - Parameters:
    ///   - whole: This socket's ``tallies``.
    ///   - payload: What the process moved.
    ///   - wire: The process's part of the packets.
    package func part(of whole: AuditTallies, payload: PayloadBytes, wire: WireTotals) -> AuditTallies {
        var tallies = whole
        let othersSent = tallies.sent[.payload] -| Int64(clamping: payload.sent)
        let othersReceived = tallies.received[.payload] -| Int64(clamping: payload.received)
        tallies.sent[.payload] -|= othersSent
        tallies.sent[.othersPayload] = othersSent
        tallies.received[.payload] -|= othersReceived
        tallies.received[.othersPayload] = othersReceived
        guard let all = self.wire else { return tallies }
        tallies.sent[.othersWire] = Int64(clamping: wire.sent) -| Int64(clamping: all.sent.total)
        tallies.received[.othersWire] = Int64(clamping: wire.received) -| Int64(clamping: all.received.total)
        return tallies
    }

    private var sent: AuditTally {
        var tally = AuditTally()
        tally[.payload] = Int64(clamping: self.payload.sent)
        tally[.pending] = Int64(clamping: self.pendingSent)
        guard let wire else { return tally }
        tally.add(wire.sent)
        let onWire = Int64(clamping: wire.sent.payload)
        let fromCalls = tally[.payload] +| tally[.pending]
        guard let stream = self.judgedStream else {
            tally[self.unjudged] = onWire -| fromCalls
            return tally
        }
        tally[self.isClosed ? .abandoned : .waiting] = -Int64(clamping: stream.unsent)
        tally[.again] = Int64(clamping: self.retransmitted)
        let expected = fromCalls -| Int64(clamping: stream.unsent) +| tally[.again]
        let byTCP = Int64(clamping: stream.sent)
        if stream.isFramed {
            tally[.framing] = byTCP -| expected
        } else {
            // When the socket is closed, no call is at work any more. So its stream must be as long as what the calls
            // returned.
            var missed: Int64 = 0
            if self.isClosed, let length = stream.sentLength {
                missed = Int64(Int32(bitPattern: length &- UInt32(truncatingIfNeeded: self.payload.sent)))
            }
            let more = byTCP -| expected -| missed
            tally[.againAfterDrop] = max(0, more)
            tally[.unexplained] = missed +| min(0, more)
        }
        tally[.dropped] = min(0, onWire -| byTCP)
        tally[.unexplained] +|= max(0, onWire -| byTCP)
        self.excuse(&tally, stream)
        return tally
    }

    private var received: AuditTally {
        var tally = AuditTally()
        tally[.payload] = Int64(clamping: self.payload.received)
        guard let wire else { return tally }
        tally.add(wire.received)
        let onWire = Int64(clamping: wire.received.payload)
        if self.isListener {
            tally[.handshakePayload] = onWire
            return tally
        }
        guard let stream = self.judgedStream else {
            tally[self.unjudged] = onWire -| tally[.payload]
            return tally
        }
        tally[self.isClosed ? .abandoned : .waiting] = Int64(clamping: stream.unread)
        tally[.urgent] = stream.urgent
        // Without packets the listener has none of the connection's bytes.
        let early = self.wire?.quality == .exact ? Int64(clamping: stream.early) : 0
        tally[.handshakePayload] = -early
        let byTCP = Int64(clamping: stream.received)
        let fromCalls = tally[.payload] +| Int64(clamping: stream.unread) +| stream.urgent
        tally[stream.isFramed ? .framing : .unexplained] = byTCP -| fromCalls
        let more = onWire +| early -| byTCP
        tally[.again] = max(0, more)
        // The packets carried fewer bytes than TCP has. The missing bytes came before the connection existed, if the
        // kernel side may have forgotten such bytes.
        tally[stream.isEarlyUnknown == true ? .handshakePayload : .unexplained] +|= min(0, more)
        self.excuse(&tally, stream)
        return tally
    }

    /// TCP's own account, which judges the calls, also where no packet is seen. `nil` if it was not read from the socket's
    /// beginning on.
    private var judgedStream: TCPStream? {
        guard let stream, self.wire != nil, !self.preexisting, !stream.isPartial else { return nil }
        return stream
    }

    /// The line for the difference, if a socket has fewer witnesses.
    private var unjudged: AuditLine {
        if self.wire?.quality == .estimated { return .estimated }
        return self.preexisting || self.stream?.isPartial == true ? .earlier : .datagrams
    }

    private func excuse(_ tally: inout AuditTally, _ stream: TCPStream) {
        guard stream.isInUse, !self.isClosed else { return }
        tally[.inUse] = tally[.unexplained]
        tally[.unexplained] = 0
    }
}

extension AuditTally {
    fileprivate mutating func add(_ wire: WireBytes) {
        self[.headers] = Int64(clamping: wire.headers)
        self[.acknowledgements] = Int64(clamping: wire.bare)
        self[.handshake] = Int64(clamping: wire.control)
    }
}

/// An interface's own counters and the packets that the capture saw pass, both since counting began.
public struct InterfaceEvidence: Hashable, Sendable, Codable {
    /// One direction.
    public struct Direction: Hashable, Sendable, Codable {
        public var counterBytes: UInt64
        public var counterPackets: UInt64
        public var seen: InterfacePackets.Bytes
        /// The part of the difference that was there in each of the last rounds. The rest was on its way while the
        /// numbers were read.
        public var lasting: Int64

        public init(counterBytes: UInt64, counterPackets: UInt64, seen: InterfacePackets.Bytes, lasting: Int64 = 0) {
            self.counterBytes = counterBytes
            self.counterPackets = counterPackets
            self.seen = seen
            self.lasting = lasting
        }

        /// Physical interfaces count the packets that their offload made; virtual interfaces count the aggregates.
        public var countsAggregates: Bool {
            self.counterPackets.difference(to: self.seen.packets)
                <= self.counterPackets.difference(to: self.seen.packets +| self.seen.offloadedPackets)
        }

        /// What the counter should be.
        ///
        /// - Parameter linkHeader: Bytes of each packet's link header. Some drivers remove the header before they count
        ///   received packets (veth does, once it aggregates). The counter itself shows whether the driver does.
        public func expected(linkHeader: UInt64) -> (offload: UInt64, linkHeaders: UInt64, total: UInt64) {
            let with = self.expected(countedHeader: linkHeader)
            let without = self.expected(countedHeader: 0)
            let isNearer =
                self.counterBytes.difference(to: with.total)
                <= self.counterBytes.difference(to: without.total)
            return isNearer ? with : without
        }

        private func expected(countedHeader: UInt64) -> (offload: UInt64, linkHeaders: UInt64, total: UInt64) {
            let offload = self.countsAggregates ? 0 : self.seen.offloaded
            let linkHeaders = self.counterPackets *| countedHeader
            return (offload, linkHeaders, self.seen.ip +| offload +| self.seen.other +| linkHeaders)
        }

        /// By how much the counter is more than it should be.
        public func difference(linkHeader: UInt64) -> Int64 {
            Int64(clamping: self.counterBytes) -| Int64(clamping: self.expected(linkHeader: linkHeader).total)
        }
    }

    public var sent: Direction
    public var received: Direction

    public init(sent: Direction, received: Direction) {
        self.sent = sent
        self.received = received
    }
}

/// What an audit needs of sockets that are no longer listed.
public struct AuditEvidence: Hashable, Sendable {
    /// The lines of sockets that are gone.
    public var forgottenSockets = AuditTallies()
    /// The same by process, over all sockets that the process had used.
    public var forgottenSocketsOf: [ProcessIdentity: AuditTallies] = [:]
    /// The last sockets whose witnesses disagreed, and how many there were in all.
    public var disputed: [SocketUsage] = []
    public var disputedCount = 0
    /// Every interface of every network namespace.
    public var packets: [InterfacePackets] = []
    /// Whether the daemon counts packets at interfaces.
    public var countsInterfaces = false

    public init() {}
}

extension SocketUsage {
    /// The lines of the whole socket, or the lines as one of its processes sees them.
    public func tallies(for process: ProcessIdentity? = nil) -> AuditTallies {
        guard let evidence else { return AuditTallies() }
        guard let process else { return evidence.tallies }
        let own = self.owners.first { $0.identity == process }
        return evidence.part(
            of: evidence.tallies,
            payload: own?.payload ?? PayloadBytes(),
            wire: own?.wire ?? WireTotals()
        )
    }
}
