public import TrafficModel

extension AuditReport {
    /// - Throws: ``AuditError`` if the subject is not in the reading.
    public init(of subject: AuditSubject, in reading: Reading) throws(AuditError) {
        let (snapshot, evidence) = (reading.snapshot, reading.evidence)
        let sockets = snapshot.sockets ?? []
        var disputed: [SocketUsage]
        var count = 0
        switch subject {
        case .host:
            var tallies = evidence.forgottenSockets
            for socket in sockets { tallies += socket.tallies() }
            tallies.add(evidence.packets, snapshot.interfaces ?? [], awaitsRows: snapshot.capture.awaitsRows)
            let interfaces = snapshot.interfaces ?? []
            self.sections =
                [
                    Section(
                        kind: .host,
                        name: snapshot.host.name,
                        tallies,
                        upTo: evidence.packets.isEmpty ? .wire : .interfaceWire
                    )
                ]
                + interfaces.compactMap(Section.init(interface:))
            disputed = evidence.disputed + sockets.filter { $0.evidence?.isDisputed == true }
            count = evidence.disputedCount - evidence.disputed.count
        case .interface(let name):
            let interfaces = snapshot.interfaces ?? []
            guard let interface = interfaces.first(where: { $0.name == name }) else {
                throw .noSuchInterface(name, known: interfaces.map(\.name))
            }
            guard interface.evidence != nil else { throw .interfaceNotCounted(name) }
            self.sections = [Section(interface: interface)].compactMap(\.self)
            disputed = []
        case .process(let pid):
            let processes = (snapshot.processes ?? []).filter { $0.identity.pid == pid }
            guard !processes.isEmpty else { throw .noSuchProcess(pid) }
            self.sections = processes.map { process in
                var tallies = evidence.forgottenSocketsOf[process.identity] ?? AuditTallies()
                for socket in sockets where socket.owners.contains(where: { $0.identity == process.identity }) {
                    tallies += socket.tallies(for: process.identity)
                }
                return Section(kind: .process, name: "\(process.details.name) (\(pid))", tallies, upTo: .wire)
            }
            let used = (evidence.disputed + sockets.filter { $0.evidence?.isDisputed == true })
            disputed = used.filter { socket in socket.owners.contains { $0.identity.pid == pid } }
        case .socket(let cookie):
            let listed = sockets.filter { $0.cookie == cookie }
            guard !listed.isEmpty else { throw .noSuchSocket(cookie) }
            self.sections = listed.map {
                Section(kind: .socket, name: $0.auditName, $0.tallies(), upTo: .wire)
            }
            disputed = listed.filter { $0.evidence?.isDisputed == true }
        }
        self.takenAt = snapshot.takenAt
        self.countingSince = snapshot.countingSince
        self.method = snapshot.capture.method
        self.countsInterfaces = evidence.countsInterfaces
        self.disputes = disputed.flatMap(Dispute.of)
        self.disputedSockets = disputed.count + count
        let lines = self.sections.flatMap { $0.sent + $0.received }
        self.unexplained = lines.filter { $0.line == .unexplained || $0.line == .unexplainedAtInterface }
            .reduce(0) { $0 +| UInt64($1.bytes.magnitude) }
    }
}

extension AuditReport.Section {
    fileprivate init(kind: Kind, name: String, _ tallies: AuditTallies, upTo last: AuditLine) {
        self.init(
            kind: kind,
            name: name,
            sent: tallies.sent.lines(upTo: last),
            received: tallies.received.lines(upTo: last)
        )
    }

    /// - Returns: `nil` if the capture does not see packets.
    fileprivate init?(interface: InterfaceUsage) {
        guard let evidence = interface.evidence else { return nil }
        let header = interface.linkHeaderLength ?? 0
        self.init(
            kind: .interface,
            name: interface.name,
            sent: evidence.sent.lines(linkHeader: header, isSent: true),
            received: evidence.received.lines(linkHeader: header, isSent: false)
        )
    }
}

extension AuditTally {
    private static let fromCalls: [AuditLine] = [
        .payload, .othersPayload, .pending, .waiting, .abandoned, .again, .againAfterDrop, .dropped, .framing,
        .datagrams,
        .earlier, .handshakePayload, .urgent, .estimated, .inUse, .unexplained,
    ]
    private static let headers: [AuditLine] = [.headers, .acknowledgements, .handshake, .othersWire, .folded]
    private static let beyondSockets: [AuditLine] = [
        .noSocket, .fragments, .queues, .onItsWay, .unexplainedAtInterface,
    ]

    /// The lines and their sums. Lines that must be 0 are always listed; other lines only if they are not 0.
    fileprivate func lines(upTo last: AuditLine) -> [AuditReport.Line] {
        var lines: [AuditReport.Line] = []
        var sum: Int64 = 0
        for (parts, total) in [
            (Self.fromCalls, AuditLine.wirePayload), (Self.headers, .wire), (Self.beyondSockets, .interfaceWire),
        ] {
            for part in parts where self[part] != 0 || part == .payload || part == .unexplained {
                sum +|= self[part]
                lines.append(AuditReport.Line(line: part, bytes: self[part]))
            }
            lines.append(AuditReport.Line(line: total, bytes: sum))
            if total == last { break }
        }
        return lines
    }

    /// The sum of the sockets' lines, before the lines of the interfaces.
    fileprivate var wire: Int64 { (Self.fromCalls + Self.headers).reduce(0) { $0 +| self[$1] } }
}

extension AuditTallies {
    /// Adds what passed the interfaces besides the packets of sockets.
    ///
    /// - Parameter interfaces: Interfaces whose own counters are known. These counters decide how much passed.
    fileprivate mutating func add(
        _ packets: [InterfacePackets],
        _ interfaces: [InterfaceUsage],
        awaitsRows: Bool
    ) {
        let unseen = interfaces.compactMap(\.evidence).reduce(into: (sent: Int64(0), received: Int64(0))) {
            $0.sent +|= $1.sent.lasting
            $0.received +|= $1.received.lasting
        }
        var (sent, received) = (InterfacePackets.Bytes(), InterfacePackets.Bytes())
        for interface in packets {
            sent += interface.sent
            received += interface.received
        }
        let beyond = sent.beyondSockets(
            isSent: true,
            sockets: self.sent.wire,
            passed: Int64(clamping: sent.wire) +| unseen.sent
        )
        self.sent.merge(beyond)
        let beyondReceived = received.beyondSockets(
            isSent: false,
            sockets: self.received.wire,
            passed: Int64(clamping: received.wire) +| unseen.received
        )
        self.received.merge(beyondReceived)
        // These are packets of sockets whose own numbers come later. What such sockets received is in `noSocket` until
        // then, because received packets can't be told apart.
        guard awaitsRows else { return }
        self.sent[.onItsWay] = self.sent[.unexplainedAtInterface]
        self.sent[.unexplainedAtInterface] = 0
    }
}

extension InterfacePackets.Bytes {
    /// - Parameters:
    ///   - isSent: Sent packets are told apart by their socket. Of received packets, the remainder reached no socket.
    ///   - sockets: The wire bytes of sockets.
    ///   - passed: The wire bytes that passed.
    fileprivate func beyondSockets(isSent: Bool, sockets: Int64, passed: Int64) -> [(AuditLine, Int64)] {
        let fragments = Int64(clamping: self.fragments)
        let remainder = passed -| sockets -| fragments
        guard isSent else {
            return [
                (.noSocket, max(0, remainder)), (.fragments, fragments), (.unexplainedAtInterface, min(0, remainder)),
            ]
        }
        let kernel = Int64(clamping: self.noSocket)
        // If a listener sent answers that its hook did not see, they count as the kernel's own.
        let answers = min(max(0, remainder -| kernel), Int64(clamping: self.answers))
        let difference = remainder -| kernel -| answers
        return [
            (.noSocket, kernel +| answers), (.fragments, fragments), (.queues, min(0, difference)),
            (.unexplainedAtInterface, max(0, difference)),
        ]
    }
}

extension InterfaceEvidence.Direction {
    fileprivate func lines(linkHeader: UInt64, isSent: Bool) -> [AuditReport.Line] {
        let expected = self.expected(linkHeader: linkHeader)
        let sockets = Int64(clamping: self.seen.socket)
        let difference = self.difference(linkHeader: linkHeader)
        // The interface's own counter decides how much passed. The kernel sometimes skips the tracepoints (6.18: one
        // packet in a million, and no program's `recursion_misses` grows). The kernel never skips the programs that
        // count the packets of sockets.
        let passed = Int64(clamping: self.seen.wire) +| self.lasting
        var tally = AuditTally()
        tally.merge([(.wire, sockets)] + self.seen.beyondSockets(isSent: isSent, sockets: sockets, passed: passed))
        tally[.interfaceWire] = passed
        tally[.offload] = self.countsAggregates ? -Int64(clamping: self.seen.offloaded) : 0
        tally[.otherProtocols] = Int64(clamping: self.seen.other)
        tally[.linkHeaders] = Int64(clamping: expected.linkHeaders)
        tally[.onItsWay] = difference -| self.lasting
        tally[.interfaceCounter] = Int64(clamping: self.counterBytes)
        let order: [AuditLine] = [
            .wire, .noSocket, .fragments, .queues, .interfaceWire, .offload, .otherProtocols, .linkHeaders, .onItsWay,
            .unexplainedAtInterface, .interfaceCounter,
        ]
        return order.filter { tally[$0] != 0 || $0.isSum || $0 == .unexplainedAtInterface }
            .map { AuditReport.Line(line: $0, bytes: tally[$0]) }
    }
}

extension AuditReport.Dispute {
    fileprivate static func of(_ socket: SocketUsage) -> [AuditReport.Dispute] {
        guard let evidence = socket.evidence else { return [] }
        let tallies = evidence.tallies
        return [
            AuditReport.Dispute(
                socket,
                .sent,
                payload: evidence.payload.sent,
                tcp: evidence.stream?.sent,
                wirePayload: evidence.wire?.sent.payload,
                unexplained: tallies.sent[.unexplained]
            ),
            AuditReport.Dispute(
                socket,
                .received,
                payload: evidence.payload.received,
                tcp: evidence.stream?.received,
                wirePayload: evidence.wire?.received.payload,
                unexplained: tallies.received[.unexplained]
            ),
        ].filter { $0.unexplained != 0 }
    }

    private init(
        _ socket: SocketUsage,
        _ direction: Direction,
        payload: UInt64,
        tcp: UInt64?,
        wirePayload: UInt64?,
        unexplained: Int64
    ) {
        self.init(
            cookie: socket.cookie,
            name: socket.auditName,
            processes: socket.owners.map(\.identity),
            direction: direction,
            payload: payload,
            tcp: tcp,
            wirePayload: wirePayload,
            unexplained: unexplained
        )
    }
}

extension SocketUsage {
    fileprivate var auditName: String { "\(self.transport.rawValue) \(self.local) \(self.remote)" }
}
