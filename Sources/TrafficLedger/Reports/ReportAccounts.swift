import TrafficModel
import TrafficReport

/// Joins what cooperating programs report to what the kernel counts.
///
/// The ledger settles a record in the round of observations after it came. So the kernel has counted everything that
/// the record tells of. A record that the counts do not confirm yet waits for ``patience`` ticks, and is then
/// rejected. No byte is explained twice, and no byte is explained that the kernel did not count.
///
/// Everything that a sender can make grow here is limited for its process and its user (``ReportLimits``). A datagram
/// may have any numbers. So sums of bytes that no kernel count has confirmed wrap, and never trap.
struct ReportAccounts {
    /// Ticks and not rounds, because the senders that send most decide how many rounds there are.
    private static let patience: UInt64 = 3
    /// The most records that a sender can have dropped between two of its datagrams.
    private static let mostDropped: UInt32 = 1 << 20

    private enum Verdict {
        case settled
        /// The record can't be settled yet. If its time ends, it is rejected, and this counter counts it.
        case waits(WritableKeyPath<ReportCounters, UInt64>)
    }

    private(set) var counters = ReportCounters()
    /// Claims by the sockets' serials.
    private var claims: [UInt64: SocketClaims] = [:]
    private var endpoints = EndpointTotals()
    private var exchanges = ExchangeTable()
    private var waiting = WaitingRecords()
    /// How many ranges claims have left.
    private var ranges = Budget<ProcessIdentity>(ReportLimits.claimedRanges)
    private var ticks: UInt64 = 0
    /// How many records each sender had dropped, by the last datagram from that sender.
    private var droppedBySender: [ProcessIdentity: UInt32] = [:]
    private var numbers: [ProcessIdentity: SenderNumbers] = [:]

    /// Whether any report has come from a process.
    func isReporting(_ process: ProcessIdentity) -> Bool { self.numbers[process] != nil }

    // MARK: In

    /// - Parameter dropped: Datagrams that found no room since the start.
    mutating func absorb(
        _ reports: [ReceivedReport],
        dropped: UInt64,
        round: ReportRound,
        processes: inout [ProcessIdentity: ProcessAccount]
    ) {
        self.counters.droppedDatagrams = dropped
        for entry in self.waiting.takeAll() {
            let sender = self.sender(entry.sender, in: processes)
            self.settle(entry.record, from: sender, since: entry.since, round, &processes)
        }
        for report in reports {
            self.counters.datagrams += 1
            guard let identity = round.process(of: report) else {
                self.counters.unknownProcess += 1
                continue
            }
            let sender = self.sender(identity, in: processes)
            self.read(report.datagram, from: identity) { accounts, record in
                accounts.settle(record.bounded, from: sender, since: nil, round, &processes)
            }
        }
        self.counters.inOther = self.endpoints.inOther
        self.counters.forgottenExchanges = self.exchanges.forgotten
    }

    /// What the ledger needs of a process to settle the records of a datagram.
    private mutating func sender(
        _ identity: ProcessIdentity,
        in processes: [ProcessIdentity: ProcessAccount]
    ) -> ReportSender {
        guard let process = processes[identity] else { return ReportSender(identity: identity) }
        return ReportSender(
            identity: identity,
            user: process.details.uid,
            name: process.details.name,
            isResolved: process.isResolved,
            group: self.endpoints.group(
                ProcessGroup(process.details),
                of: process.exitedAt == nil ? .init(process: identity, user: process.details.uid) : nil
            )
        )
    }

    private mutating func read(
        _ datagram: [UInt8],
        from sender: ProcessIdentity,
        _ body: (inout ReportAccounts, Report.Record) -> Void
    ) {
        do throws(ReportError) {
            self.note(try ReportReader.header(of: datagram.span), of: sender)
            var reader = ReportReader()
            let contents = try reader.read(datagram.span) { record in
                self.counters.records += 1
                if case .exchange(let exchange) = record {
                    for part in exchange.parts { body(&self, part) }
                } else {
                    body(&self, copy record)
                }
            }
            self.counters.records += UInt64(contents.skippedRecords + contents.malformedRecords)
            self.counters.skippedRecords += UInt64(contents.skippedRecords)
            self.counters.malformedRecords += UInt64(contents.malformedRecords)
        } catch {
            switch error {
            case .unknownVersion: self.counters.unknownVersion += 1
            case .notAReport, .truncated: self.counters.malformedDatagrams += 1
            }
        }
    }

    private mutating func note(_ header: Report.Header, of sender: ProcessIdentity) {
        self.counters.missingDatagrams &+= self.numbers[sender, default: SenderNumbers()].note(header.sequence)
        // Cumulative and wrapping. A smaller number is of a late datagram, or of a second monitor of the process. A
        // number that is far larger is not valid.
        let growth = header.droppedRecords &- self.droppedBySender[sender, default: 0]
        if growth > 0 && growth <= Self.mostDropped {
            self.counters.droppedBySenders &+= UInt64(growth)
            self.droppedBySender[sender] = header.droppedRecords
        }
    }

    mutating func forget(socket serial: UInt64) {
        guard let claims = self.claims.removeValue(forKey: serial) else { return }
        self.ranges.add(-claims.rangeCount, of: claims.holder, claims.user)
    }

    /// A process that exited has no endpoints of its own any more. Reports that it sent before may still come.
    mutating func end(process: ProcessIdentity) { self.endpoints.end(process) }

    mutating func forget(process: ProcessIdentity) {
        self.end(process: process)
        self.droppedBySender[process] = nil
        self.exchanges.forget(process: process)
        if var numbers = self.numbers.removeValue(forKey: process) {
            self.counters.missingDatagrams &+= numbers.settle()
        }
    }

    // MARK: Settling

    /// - Parameter since: The tick since which the record has waited; `nil` if the record has just come.
    private mutating func settle(
        _ record: Report.Record,
        from sender: ReportSender,
        since: UInt64?,
        _ round: ReportRound,
        _ processes: inout [ProcessIdentity: ProcessAccount]
    ) {
        let isOver = since.map { self.ticks - $0 >= Self.patience } ?? false
        let isLast = isOver || !self.waiting.hasRoom(for: sender)
        guard case .waits(let reason) = self.settle(record, from: sender, isLast: isLast, round, &processes) else {
            return
        }
        if isLast {
            self.counters[keyPath: reason] += 1
            if !isOver { self.counters.unwaited += 1 }
        } else {
            if since == nil { self.counters.early += 1 }
            self.waiting.append(record, of: sender, since: since ?? self.ticks)
        }
    }

    private mutating func settle(
        _ record: Report.Record,
        from sender: ReportSender,
        isLast: Bool,
        _ round: ReportRound,
        _ processes: inout [ProcessIdentity: ProcessAccount]
    ) -> Verdict {
        guard let group = sender.group, sender.isResolved || isLast else { return .waits(\.unknownProcess) }
        if !isLast, self.waiting.has(exchangeOf: record, sender) { return .waits(\.late) }
        switch record {
        case .exchange: return .settled
        case .request(let message):
            return self.settle(message, isRequest: true, from: sender, group, round, &processes)
        case .response(let message):
            return self.settle(message, isRequest: false, from: sender, group, round, &processes)
        case .outcome(let outcome):
            self.end(outcome, of: sender, group, round)
            return .settled
        case .connection(let connection):
            guard let socket = round.socket(connection.cookie) else { return .waits(\.late) }
            guard round.isOwned(socket, by: sender.identity) else { return .waits(\.foreign) }
            let payload = socket.payload
            let claimed = PayloadBytes(sent: connection.sent.total, received: connection.received.total)
            if !isLast && payload.isBehind(claimed) { return .waits(\.impossible) }
            let none = SocketClaims(holder: sender.identity, user: sender.user)
            let growth = self.claims[socket.serial, default: none].claim(connection, of: payload)
            processes.changeInPlace(sender.identity) { $0.explain(growth.total) }
            return .settled
        }
    }

    private mutating func settle(
        _ message: Report.Message,
        isRequest: Bool,
        from sender: ReportSender,
        _ group: EndpointTotals.Group,
        _ round: ReportRound,
        _ processes: inout [ProcessIdentity: ProcessAccount]
    ) -> Verdict {
        if self.exchanges.has(message, isRequest: isRequest, of: sender.identity) {
            self.counters.duplicate += 1
            return .settled
        }
        var quality = JoinQuality(message.quality)
        var wire: UInt64 = 0
        var connection: ConnectionStart?
        if message.cookie != 0 && !message.interval.isEmpty {
            guard message.interval.bytes == message.messageBytes &+ message.tlsBytes else {
                self.counters.malformedRecords += 1
                return .settled
            }
            guard let socket = round.socket(message.cookie) else { return .waits(\.late) }
            guard round.isOwned(socket, by: sender.identity) else { return .waits(\.foreign) }
            let payload = socket.payload
            let isSent = isRequest == (message.role != .server)
            // Of a connection older than the daemon, only the rest was counted. Positions in the stream say nothing
            // about that.
            let isFromBirth = !socket.preexisting
            if isFromBirth && message.interval.to > (isSent ? payload.sent : payload.received) {
                return .waits(\.impossible)
            }
            let claim = self.claim(message.interval, isSent: isSent, of: socket, by: sender)
            switch claim.verdict {
            case .accepted: break
            case .duplicate:
                self.counters.duplicate += 1
                return .settled
            case .overlapping:
                self.counters.overlapping += 1
                return .settled
            }
            wire = claim.wire
            processes.changeInPlace(sender.identity) { $0.explain(claim.growth.total) }
            if !isFromBirth { quality = max(quality, .inferred) }
            // For the outcome of the exchange. The outcome does not name the socket, and may come when the socket is
            // forgotten.
            connection = socket.connect.map { ConnectionStart(times: $0, isFirst: message.interval.from == 0) }
        } else {
            quality = max(quality, .inferred)
        }
        if quality == .exact { self.counters.joined += 1 } else { self.counters.inferred += 1 }
        let share = MessageShare(message, isRequest: isRequest, wire: wire, quality: quality)
        let startedAt = round.wall(message.startedAt)
        let content = self.exchanges.add(message, share, of: sender, group, over: connection, startedAt: startedAt)
        self.endpoints.add(share, group, EndpointTotals.Place(message.role, message.name), content)
        return .settled
    }

    private mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ReportRound.Socket,
        by sender: ReportSender
    ) -> (verdict: Coverage.Verdict, growth: PayloadBytes, wire: UInt64) {
        var claims =
            self.claims.removeValue(forKey: socket.serial) ?? SocketClaims(holder: sender.identity, user: sender.user)
        let known = claims.rangeCount
        let hasRoom = self.ranges.hasRoom(of: claims.holder, claims.user)
        defer {
            self.ranges.add(claims.rangeCount - known, of: claims.holder, claims.user)
            self.claims[socket.serial] = claims
        }
        return claims.claim(
            interval,
            isSent: isSent,
            of: socket.payload,
            wire: socket.wireBytes,
            limit: hasRoom ? Coverage.mostRanges : Coverage.fewestRanges
        )
    }

    private mutating func end(
        _ outcome: Report.Outcome,
        of sender: ReportSender,
        _ group: EndpointTotals.Group,
        _ round: ReportRound
    ) {
        guard !self.exchanges.has(outcome, of: sender.identity) else {
            self.counters.duplicate += 1
            return
        }
        let (outcome, bytes, content) = self.exchanges.end(
            outcome,
            of: sender,
            startedAt: round.wall(outcome.startedAt)
        )
        self.endpoints.add(outcome, bytes: bytes, group, EndpointTotals.Place(outcome.role, outcome.name), content)
    }

    /// Computes the percentiles: once for a tick or look, not for each record.
    mutating func summarize() { self.endpoints.summarize() }

    /// Counts datagrams as missing that did not come in time.
    mutating func tick() {
        self.ticks += 1
        self.summarize()
        var missing: UInt64 = 0
        self.numbers.forEachInPlace { missing &+= $0.tick() }
        self.counters.missingDatagrams &+= missing
    }

    // MARK: Out

    var isWaiting: Bool { !self.waiting.isEmpty }

    func explained(ofSocket serial: UInt64) -> PayloadBytes { self.claims[serial]?.explained ?? PayloadBytes() }

    var endpointUsages: [EndpointUsage] { self.endpoints.byRoute }

    func ownEndpoints(of process: ProcessIdentity) -> [ProcessEndpoint] { self.endpoints.own(of: process) }

    var groupedEndpointUsages: [EndpointGrouping: [EndpointUsage]] { self.endpoints.otherwise }

    var exchangeUsages: [ExchangeUsage] { self.exchanges.snapshot }
}
