import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

/// Joins what cooperating programs report to what the kernel counts.
///
/// The ledger joins a record in the round of observations after it came. So the kernel has counted everything that
/// the record tells of. A record that the counts do not confirm yet waits for ``patience`` ticks, and is then
/// rejected. No byte is explained twice, and no byte is explained that the kernel did not count.
///
/// Everything that a sender can make grow here is limited for its process and its user (``ReportLimits``). A datagram
/// may have any numbers. So sums of bytes that no kernel count has confirmed wrap, and never trap.
struct ReportAccounts: Codable {
    /// Ticks and not rounds, because the senders that send most decide how many rounds there are.
    private static let patience: UInt64 = 3
    /// The most records that a sender can have dropped between two of its datagrams.
    private static let mostDropped: UInt32 = 1 << 20

    private typealias Counter = WritableKeyPath<ReportCounters, UInt64>

    /// Taken out while it reads. It cuts names when it makes them, because names stay in memory as long as exchanges and
    /// rows do. It remembers names only to save time.
    private struct Reader: NotSaved {
        var own: ReportReader? = Reader.make()

        static func make() -> ReportReader { ReportReader { $0.bounded } }
    }

    private enum Verdict {
        case joined
        /// The record can't be joined yet. If its time ends, it is rejected, and this counter counts it.
        case waits(Counter)
        /// The record's time had ended. So many of its messages were rejected and counted.
        case rejected(messages: UInt64)
    }

    private(set) var counters = ReportCounters()
    /// Datagrams that found no room before the present daemon began.
    private var droppedBefore: UInt64 = 0
    private(set) var endpoints = EndpointTotals()
    private(set) var exchanges = ExchangeTable()
    private(set) var waiting = WaitingRecords()
    /// The bytes that the sender of the current datagram has explained.
    private var explained: UInt64 = 0
    private var ticks: UInt64 = 0
    private var reader = Reader()
    /// How many records each sender had dropped, by the last datagram from that sender.
    private var droppedBySender: [ProcessIdentity: UInt32] = [:]
    private var numbers: [ProcessIdentity: SenderNumbers] = [:]

    /// Whether any report has come from a process.
    private func isReporting(_ process: ProcessIdentity) -> Bool { self.numbers[process] != nil }

    // MARK: In

    /// Another daemon receives the reports from now on.
    mutating func resume() { self.droppedBefore = self.counters.droppedDatagrams }

    /// - Parameter dropped: As in ``absorb(_:dropped:round:processes:)``.
    func isNews(dropped: UInt64) -> Bool { self.droppedBefore +| dropped > self.counters.droppedDatagrams }

    /// - Parameter dropped: Datagrams that found no room since the daemon began.
    mutating func absorb(
        _ reports: [ReceivedReport],
        dropped: UInt64,
        round: ReportRound,
        processes: inout ProcessTable
    ) {
        self.counters.droppedDatagrams = self.droppedBefore +| dropped
        for entry in self.waiting.takeAll() {
            let sender = self.sender(entry.sender, in: processes)
            self.join(entry.record, from: sender, since: entry.since, round)
            self.passOn(to: sender.identity, in: &processes)
        }
        for report in reports {
            self.counters.datagrams += 1
            guard let identity = round.process(of: report) else {
                self.counters.unknownProcess += 1
                continue
            }
            processes.change(identity) { $0.note(user: report.uid) }
            let sender = self.sender(identity, in: processes)
            self.read(report.datagram, from: sender, round)
            self.passOn(to: identity, in: &processes)
        }
        self.counters.inOther = self.endpoints.inOther
        self.counters.forgottenExchanges = self.exchanges.forgotten
    }

    /// What the ledger needs of a process to join the records of a datagram.
    private mutating func sender(
        _ identity: ProcessIdentity,
        in processes: ProcessTable
    ) -> ReportSender {
        guard let process = processes[identity] else { return ReportSender(identity: identity) }
        return ReportSender(
            identity: identity,
            user: PayingUser(process.details.uid),
            name: process.details.name,
            isResolved: process.isResolved,
            group: self.endpoints.group(
                ProcessGroup(process.details),
                of: process.exitedAt == nil ? .init(process: identity, user: PayingUser(process.details.uid)) : nil
            )
        )
    }

    private mutating func read(_ datagram: [UInt8], from sender: ReportSender, _ round: ReportRound) {
        var reader = self.reader.own.take() ?? Reader.make()
        defer { self.reader.own = reader }
        do throws(ReportError) {
            self.note(try ReportReader.header(of: datagram.span), of: sender.identity)
            let contents = try reader.read(datagram.span) { record in
                self.counters.records += 1
                self.join(record, from: sender, since: nil, round)
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

    /// Credits the bytes that a process has explained since the last call.
    private mutating func passOn(
        to process: ProcessIdentity,
        in processes: inout ProcessTable
    ) {
        guard self.explained > 0 else { return }
        processes.change(process) { $0.explain(self.explained) }
        self.explained = 0
    }

    private mutating func note(_ header: Report.Header, of sender: ProcessIdentity) {
        self.counters.missingDatagrams &+= self.numbers[sender, default: SenderNumbers()].note(header.sequence)
        // Cumulative and wrapping. A smaller number is of a late datagram, or of a second monitor of the process. A
        // number that is far larger is not valid. What a sender dropped before the daemon began is not for this daemon:
        // the sender's first datagram here is then not among its first.
        let isNew = header.sequence < UInt32(SenderNumbers.longestDelay)
        let known = self.droppedBySender[sender] ?? (isNew ? 0 : header.droppedRecords)
        if self.droppedBySender[sender] == nil { self.droppedBySender[sender] = known }
        let growth = header.droppedRecords &- known
        if growth > 0 && growth <= Self.mostDropped {
            self.counters.droppedBySenders &+= UInt64(growth)
            self.droppedBySender[sender] = header.droppedRecords
        }
    }

    /// - Returns: Whose places the socket may take while late reports of it may come: those of the user whose process
    ///   reports. `nil`: none of its processes does.
    func payer(ofLateReportsOf socket: SocketAccount, in processes: ProcessTable) -> PayingUser? {
        let reporters = socket.owners.filter { self.isReporting($0) }
        // The same one, also after a restart: the owners have no order.
        return reporters.min().map { processes[$0].map { PayingUser($0.details.uid) } ?? socket.observation.payer }
    }

    /// A process that exited has no endpoints of its own any more. Reports that it sent before may still come.
    mutating func end(process: ProcessIdentity) { self.endpoints.end(process) }

    mutating func forget(process: ProcessIdentity) {
        self.end(process: process)
        self.droppedBySender[process] = nil
        self.exchanges.forget(process: process)
        if var numbers = self.numbers.removeValue(forKey: process) {
            self.counters.missingDatagrams &+= numbers.stopWaiting()
        }
    }

    // MARK: Joining

    /// - Parameter since: The tick since which the record has waited; `nil` if the record has just come.
    private mutating func join(
        _ record: borrowing Report.Record,
        from sender: ReportSender,
        since: UInt64?,
        _ round: ReportRound
    ) {
        let isOver = since.map { self.ticks - $0 >= Self.patience } ?? false
        let isLast = isOver || !self.waiting.hasRoom(for: sender)
        let verdict =
            switch record {
            case .exchange(let exchange): self.join(exchange, from: sender, isLast: isLast, round)
            case .connection(let connection): self.join(connection, from: sender, isLast: isLast, round)
            }
        switch verdict {
        case .joined: break
        case .waits(let reason) where isLast:
            self.counters[keyPath: reason] += 1
            if !isOver { self.counters.unwaited += 1 }
        case .waits:
            if since == nil { self.counters.early += 1 }
            self.waiting.append(copy record, of: sender, since: since ?? self.ticks)
        case .rejected(let count):
            if !isOver { self.counters.unwaited += count }
        }
    }

    private mutating func join(
        _ connection: Report.Connection,
        from sender: ReportSender,
        isLast: Bool,
        _ round: ReportRound
    ) -> Verdict {
        guard sender.group != nil, sender.isResolved || isLast else { return .waits(\.unknownProcess) }
        guard let (socket, isOwned) = round.socket(connection.cookie, of: sender.identity) else {
            return .waits(\.late)
        }
        guard isOwned else { return .waits(\.foreign) }
        let payload = socket.payload
        let claimed = PayloadBytes(sent: connection.sent.total, received: connection.received.total)
        if !isLast && payload.isBehind(claimed) { return .waits(\.impossible) }
        self.explained +|= round.sockets.claim(connection, of: socket, by: sender).total
        return .joined
    }

    /// Joins all parts of an exchange, or none of them: a record waits as a whole.
    private mutating func join(
        _ exchange: borrowing Report.Exchange,
        from sender: ReportSender,
        isLast: Bool,
        _ round: ReportRound
    ) -> Verdict {
        guard let group = sender.group, sender.isResolved || isLast else { return .waits(\.unknownProcess) }
        if !isLast, self.waiting.has(exchange.number, of: sender) { return .waits(\.late) }
        var claim = ExchangeClaim(exchange, self.exchanges.parts(of: exchange.number, sender.identity))
        let hasPlace = claim.request?.hasPlace == true || claim.response?.hasPlace == true
        var rejected: UInt64 = 0
        if hasPlace {
            let found = round.socket(exchange.cookie, of: sender.identity)
            let isServer = exchange.role == .server
            if let reason = Self.obstacle(claim.request, isSent: !isServer, found) {
                guard isLast else { return .waits(reason) }
                claim.request = nil
                self.counters[keyPath: reason] += 1
                rejected += 1
            }
            if let reason = Self.obstacle(claim.response, isSent: isServer, found) {
                guard isLast else { return .waits(reason) }
                claim.response = nil
                self.counters[keyPath: reason] += 1
                rejected += 1
            }
            if let socket = found?.socket { self.claim(&claim, isServer: isServer, over: socket, by: sender, round) }
        }
        self.counters.duplicate += claim.duplicates
        self.counters.malformedRecords += claim.contradictions
        self.count(claim, exchange, of: sender, group, round)
        return rejected == 0 ? .joined : .rejected(messages: rejected)
    }

    /// - Returns: Why the kernel's counts do not confirm the message; `nil` if they do, or if it has no place.
    private static func obstacle(
        _ message: ExchangeClaim.Message?,
        isSent: Bool,
        _ found: (socket: ClaimedSocket, isOwned: Bool)?
    ) -> Counter? {
        guard let message, message.hasPlace else { return nil }
        guard let (socket, isOwned) = found else { return \.late }
        guard isOwned else { return \.foreign }
        // Of a connection older than the daemon, only the rest was counted. Positions in the stream say nothing about
        // that.
        if socket.preexisting { return nil }
        return message.interval.to > (isSent ? socket.payload.sent : socket.payload.received) ? \.impossible : nil
    }

    /// Claims the bytes of the messages that have a place. A message whose bytes are claimed already does not count.
    private mutating func claim(
        _ claim: inout ExchangeClaim,
        isServer: Bool,
        over socket: ClaimedSocket,
        by sender: ReportSender,
        _ round: ReportRound
    ) {
        if let request = claim.request, request.hasPlace {
            claim.request = self.claim(request, isSent: !isServer, &claim.connection, over: socket, by: sender, round)
        }
        if let response = claim.response, response.hasPlace {
            claim.response = self.claim(response, isSent: isServer, &claim.connection, over: socket, by: sender, round)
        }
    }

    private mutating func claim(
        _ message: ExchangeClaim.Message,
        isSent: Bool,
        _ connection: inout ConnectionStart?,
        over socket: ClaimedSocket,
        by sender: ReportSender,
        _ round: ReportRound
    ) -> ExchangeClaim.Message? {
        let result = round.sockets.claim(message.interval, isSent: isSent, of: socket, by: sender)
        switch result.verdict {
        case .accepted: break
        case .duplicate:
            self.counters.duplicate += 1
            return nil
        case .overlapping:
            self.counters.overlapping += 1
            return nil
        }
        self.explained +|= result.growth.total
        var message = message
        message.wire = result.wire
        if socket.preexisting { message.quality = max(message.quality, .inferred) }
        if let times = socket.connect {
            let isFirst = message.interval.from == 0 || connection?.isFirst == true
            connection = ConnectionStart(times: times, isFirst: isFirst)
        }
        return message
    }

    /// Counts the parts that are left, as one exchange.
    private mutating func count(
        _ claim: ExchangeClaim,
        _ exchange: borrowing Report.Exchange,
        of sender: ReportSender,
        _ group: EndpointTotals.Group,
        _ round: ReportRound
    ) {
        if let request = claim.request { self.count(request) }
        if let response = claim.response { self.count(response) }
        var share = claim.share(of: exchange)
        guard !share.isEmpty else { return }
        let startedAt = round.wall(exchange.startedAt)
        let content = self.exchanges.add(
            exchange,
            &share,
            of: sender,
            group,
            over: claim.connection,
            startedAt: startedAt
        )
        self.endpoints.add(share, group, EndpointTotals.Place(exchange.role, exchange.name), content)
    }

    private mutating func count(_ message: ExchangeClaim.Message) {
        if message.quality == .exact { self.counters.joined += 1 } else { self.counters.inferred += 1 }
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
}

/// What readers get of the reports.
extension ReportAccounts {
    var isWaiting: Bool { !self.waiting.isEmpty }

    var endpointUsages: [EndpointUsage] { self.endpoints.byRoute }

    var endpointSums: [EndpointSum] { self.endpoints.sumsByRoute }

    var seriesSums: MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts> { self.endpoints.seriesSums }

    func ownEndpoints(of process: ProcessIdentity) -> [ProcessEndpoint] { self.endpoints.own(of: process) }

    var groupedEndpointUsages: [EndpointGrouping: [EndpointUsage]] { self.endpoints.otherwise }

    var exchangeUsages: [ExchangeUsage] { self.exchanges.snapshot }
}
