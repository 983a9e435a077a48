import TestSupport
import TrafficEvents
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// Events of all kinds, as a capture and cooperating programs could send them, in rounds. The same seed gives the same
/// events.
///
/// The ledger goes through tables in any order. So nothing here is a tie that the order would decide: one user owns a
/// socket, of its owners none moves as much as another, and no two processes join their groups at the same tick unasked.
struct RandomEvents {
    private struct Process {
        var identity: ProcessIdentity
        var uid: UInt32
        var name: String
        var isMute: Bool
    }

    private struct Socket {
        var observation: SocketObservation
        /// How far reports have claimed the stream: received and sent.
        var claimed = (received: UInt64(0), sent: UInt64(0))
        var isMissing = false
    }

    private var random: Seeded
    private var processes: [Process] = []
    private var sockets: [Socket] = []
    /// Closed sockets, of which reports still come.
    private var closed: [Socket] = []
    private var (serial, pid, exchange, generation) = (UInt64(0), Int32(100), UInt64(0), UInt64(0))
    private var now: UInt64 = 1_000_000_000_000
    /// Open exchanges: the number, the index in ``processes`` is looked up by identity.
    private var open: [(number: UInt64, process: ProcessIdentity, startedAt: UInt64)] = []
    private var sequence: [ProcessIdentity: UInt32] = [:]
    private var moved = UInt64(0)
    private var dropped = UInt64(0)
    private var lastMute = UInt64(0)
    /// Sockets without an observation so far, by serial.
    private var isNew: Set<UInt64> = []

    static func events(seed: UInt64, rounds: Int) -> [CaptureEvent] {
        var generator = RandomEvents(random: Seeded(seed))
        return (0..<rounds).flatMap { _ in generator.round() }
    }

    private init(random: Seeded) {
        self.random = random
    }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self.random) < percent }

    private mutating func number(_ range: Range<UInt64>) -> UInt64 { UInt64.random(in: range, using: &self.random) }

    // MARK: A round

    private mutating func round() -> [CaptureEvent] {
        var events: [CaptureEvent] = []
        self.now += 1_000
        if self.processes.count < 4 || self.processes.count < 10 && self.chance(30) { self.begin(&events) }
        if self.chance(60) || self.sockets.count < 4 { self.connect() }
        for index in self.sockets.indices where self.chance(60) { self.move(index, &events) }
        self.closeSome(&events)
        self.changeProcesses(&events)
        self.others(&events)
        if self.chance(50) { self.report(&events) }
        if self.chance(25) {
            self.now += 300_000_000
            events.append(.look(at: self.wall, boottimeNanoseconds: self.now))
        } else {
            self.now += self.chance(10) ? 7_000_000_000 : 1_000_000_000
            events.append(.tick(at: self.wall, boottimeNanoseconds: self.now))
        }
        return events
    }

    private var wall: Timestamp { Timestamp(nanosecondsSinceEpoch: 1_700_000_000_123_456_789 + Int64(self.now)) }

    // MARK: Processes

    private mutating func begin(_ events: inout [CaptureEvent]) {
        self.pid += 1
        // Nobody finds out what it is. It joins a group after a while, and no other does at the same time.
        let isMute = self.now > self.lastMute + 60_000_000_000 && self.chance(20)
        if isMute { self.lastMute = self.now }
        // A pid comes again.
        let process = Process(
            identity: ProcessIdentity(pid: self.chance(20) ? 101 : self.pid, startBoottimeNanoseconds: self.now),
            uid: 1_000 + UInt32(self.number(0..<3)),
            name: "app-\(self.number(0..<6))",
            isMute: isMute
        )
        guard !self.processes.contains(where: { $0.identity == process.identity }) else { return }
        self.processes.append(process)
        self.connect(of: process)
        self.move(self.sockets.count - 1, &events)
        if !isMute { events.append(self.details(process)) }
    }

    private func details(_ process: Process) -> CaptureEvent {
        let details = ProcessDetails(
            name: process.name,
            executable: "/usr/bin/\(process.name)",
            commandLine: [process.name, "--größe", "\(process.identity.pid)"],
            uid: process.uid,
            user: "user\(process.uid)",
            systemdUnit: process.uid == 1_000 ? "\(process.name).service" : nil,
            networkNamespace: 4_026_531_840,
            startedAt: Timestamp(nanosecondsSinceEpoch: Int64(process.identity.startBoottimeNanoseconds) + 7)
        )
        return .details(process.identity, details)
    }

    private mutating func changeProcesses(_ events: inout [CaptureEvent]) {
        if self.chance(10), let index = self.processes.indices.randomElement(using: &self.random),
            !self.processes[index].isMute
        {
            self.processes[index].name = "run-\(self.number(0..<6))"
            let process = self.processes[index]
            events.append(.executed(process.identity, Execution(name: process.name, uid: 0, boottimeNanoseconds: .max)))
            events.append(self.details(process))
        }
        if self.chance(5) { events.append(.executionsMissed) }
        if self.chance(15), let index = self.processes.indices.randomElement(using: &self.random) {
            let process = self.processes.remove(at: index)
            events.append(.exited(process.identity, at: self.wall))
        }
    }

    // MARK: Sockets

    private mutating func connect() {
        guard let process = self.processes.randomElement(using: &self.random) else { return }
        self.connect(of: process)
    }

    private mutating func connect(of process: Process) {
        self.serial += 1
        let remotes = ["198.51.100.7", "10.0.0.9", "10.0.0.5", "127.0.0.1", "2001:db8::7", "::"]
        let remote = InternetAddress(remotes.randomElement(using: &self.random) ?? "") ?? .unspecified
        let local = InternetAddress(remote.isIPv4 ? "10.0.0.5" : "2001:db8::5") ?? .unspecified
        var observation = SocketObservation(
            serial: self.serial,
            // Some sockets have the same cookie.
            cookie: SocketCookie(rawValue: self.chance(10) ? 1 << 40 : self.serial),
            transport: self.chance(70) ? .tcp : .udp,
            family: remote.isIPv4 ? .ipv4 : .ipv6,
            local: SocketAddress(address: local, port: 443),
            remote: SocketAddress(address: remote, port: UInt16(1_024 + self.serial)),
            role: self.chance(50) ? .server : .client,
            state: .established,
            openedBoottimeNanoseconds: self.now - 500,
            connect: self.chance(50) ? ConnectTimes(beganAt: self.now - 900, endedAt: self.now - 500) : nil,
            preexisting: self.chance(10),
            uid: process.uid
        )
        // The other end of a connection within this machine.
        if self.serial % 7 == 0, let other = self.sockets.last?.observation, !other.remote.address.isUnspecified {
            (observation.local, observation.remote) = (other.remote, other.local)
            (observation.transport, observation.family) = (other.transport, other.family)
        }
        if self.chance(80) { observation.tcp = TCPCounters() }
        if self.chance(80) { observation.wire = SocketWire(quality: self.chance(80) ? .exact : .estimated) }
        if self.chance(60) { observation.stream = TCPStream() }
        if self.chance(90) { observation.owners.append(self.owner(process)) }
        var socket = Socket(observation: observation)
        if !observation.owners.isEmpty, self.chance(25) {
            let others = self.processes.filter {
                $0.uid == process.uid && $0.identity != process.identity && !$0.isMute
            }
            socket.observation.owners += others.prefix(self.chance(50) ? 1 : 4).map(self.owner)
        }
        self.sockets.append(socket)
        self.isNew.insert(self.serial)
    }

    private func isAlive(_ process: ProcessIdentity) -> Bool { self.processes.contains { $0.identity == process } }

    /// A process that has ended may still have bytes to come. The ledger lists it again, and it joins a group after a while
    /// as one that nobody asked for.
    private mutating func mayMove(_ process: ProcessIdentity) -> Bool {
        if self.isAlive(process) { return true }
        guard self.now > self.lastMute + 60_000_000_000 else { return false }
        self.lastMute = self.now
        return true
    }

    private func owner(_ process: Process) -> OwnerObservation {
        OwnerObservation(identity: process.identity, name: process.name, uid: process.uid, cgroupID: 77)
    }

    private mutating func move(_ index: Int, _ events: inout [CaptureEvent]) {
        guard !self.sockets[index].isMissing else { return }
        var socket = self.sockets[index]
        // Some connections first move only packets.
        let isOpening = self.isNew.remove(socket.observation.serial) != nil && socket.observation.serial % 3 == 0
        socket.observation.state =
            isOpening ? .synSent : socket.observation.state == .synSent ? .established : socket.observation.state
        if isOpening {
            // No payload.
        } else if let first = socket.observation.owners.first {
            if self.mayMove(first.identity) {
                socket.observation.owners[0].payload.sent += self.number(1_000..<90_000)
                socket.observation.owners[0].payload.received += self.number(1_000..<90_000)
            }
        } else {
            socket.observation.unowned.received += self.number(0..<500)
        }
        for (index, growth) in zip(1..., [0..<10, 10..<100, 100..<200, 200..<300] as [Range<UInt64>])
        where !isOpening && index < socket.observation.owners.count
            && self.isAlive(socket.observation.owners[index].identity)
        {
            socket.observation.owners[index].payload.sent += self.number(growth)
        }
        let payload = socket.observation.owners.reduce(socket.observation.unowned) { $0 + $1.payload }
        socket.observation.pendingSent = self.chance(20) ? self.number(1..<5_000) : nil
        socket.observation.tcp?.retransmittedBytes += self.chance(20) ? self.number(0..<400) : 0
        socket.observation.tcp?.segmentsSent += 3
        if let wire = socket.observation.wire {
            socket.observation.wire?.sent = WireBytes(
                payload: payload.sent,
                headers: wire.sent.headers + self.number(0..<900),
                bare: wire.sent.bare + 40,
                control: 60
            )
            socket.observation.wire?.received = WireBytes(payload: payload.received, headers: 90)
        }
        if socket.observation.stream != nil {
            // Some streams and calls disagree.
            socket.observation.stream?.sent = payload.sent + (self.chance(10) ? 13 : 0)
            socket.observation.stream?.received = payload.received
        }
        self.moved += payload.sent / 16
        if self.chance(2) { socket.observation.remote.port &+= 1 }
        self.sockets[index] = socket
        events.append(.socket(socket.observation))
    }

    private mutating func closeSome(_ events: inout [CaptureEvent]) {
        guard let index = self.sockets.indices.randomElement(using: &self.random) else { return }
        let serial = self.sockets[index].observation.serial
        switch self.number(0..<100) {
        case 0..<25:
            self.sockets[index].observation.state = .closed
            self.sockets[index].observation.closedBoottimeNanoseconds = self.now
            self.sockets[index].isMissing = false
            self.move(index, &events)
            self.closed.append(self.sockets.remove(at: index))
        case 25..<32:
            events.append(.closedWithoutRecord([serial]))
            self.closed.append(self.sockets.remove(at: index))
        case 32..<42:
            events.append(.missing([serial]))
            self.sockets[index].isMissing = true
        case 42..<50:
            self.sockets[index].isMissing = false
        case 50..<60:
            let serials = self.sockets.filter { !$0.isMissing }.map(\.observation.serial)
            events.append(.census(SocketCensus(Set(serials))))
        default: break
        }
    }

    // MARK: The rest

    private mutating func others(_ events: inout [CaptureEvent]) {
        if self.chance(30), let process = self.processes.first(where: { !$0.isMute }) {
            self.generation += 1
            var owner = self.owner(process)
            owner.payload = PayloadBytes(sent: self.number(1..<700), received: self.number(1..<700))
            let row = FoldedRows.Row(owner: owner, wire: WireTotals(sent: 900, received: 900), retransmitted: 3)
            let isOfUser = self.chance(30)
            let rows = FoldedRows(
                generation: self.generation,
                processes: isOfUser ? [] : [row],
                users: isOfUser ? [row] : [],
                common: self.chance(20) ? row : nil
            )
            events.append(.rows(rows))
        }
        if self.chance(15) {
            let addresses = ["10.0.0.5", "10.0.0.9", "2001:db8::5"].prefix(self.chance(50) ? 3 : 1)
            events.append(.hostAddresses(Set(addresses.compactMap { InternetAddress($0) })))
        }
        if self.chance(10) { events.append(.loss(CaptureLoss(ringFull: self.generation, missedRuns: 1))) }
        guard self.chance(60) else { return }
        self.moved += self.number(1_000..<4_000)
        let bytes = InterfacePackets.Bytes(
            packets: self.moved / 900,
            ip: self.moved,
            socket: self.moved / 2,
            noSocket: 9
        )
        let index: UInt32 = self.chance(5) ? 3 : 2
        events.append(.packets([InterfacePackets(networkNamespace: 1, index: index, sent: bytes, received: bytes)]))
        events.append(
            .interfaces(
                ["lo", "eth0"].map { name in
                    InterfaceUsage(
                        name: name,
                        sentBytes: self.moved,
                        receivedBytes: self.moved * 2,
                        sentPackets: self.moved / 900,
                        receivedPackets: self.moved / 800,
                        networkNamespace: 1,
                        index: name == "lo" ? 1 : 2,
                        linkHeaderLength: name == "lo" ? nil : 14
                    )
                }
            )
        )
    }

    // MARK: Reports

    private mutating func report(_ events: inout [CaptureEvent]) {
        var reports: [ReceivedReport] = []
        for _ in 0..<self.number(1..<4) {
            let late = self.chance(25) ? self.closed.indices.randomElement(using: &self.random) : nil
            // Among the others for a moment.
            if let late { self.sockets.append(self.closed.remove(at: late)) }
            defer { if late != nil, let socket = self.sockets.popLast() { self.closed.append(socket) } }
            let open = self.sockets.indices.randomElement(using: &self.random)
            guard let index = late == nil ? open : self.sockets.count - 1,
                let owner = self.sockets[index].observation.owners.first?.identity
            else { continue }
            let records = (0..<self.number(1..<12)).map { _ in self.record(index, owner) }
            var writer = ReportWriter()
            for record in records { _ = writer.append(record) }
            let number = self.sequence[owner, default: 0]
            // Some datagrams never come.
            self.sequence[owner] = number + (self.chance(10) ? 2 : 1)
            let header = Report.Header(sequence: number, droppedRecords: number / 7, sentAt: self.now)
            let datagram = writer.finish(header) { bytes in bytes.indices.map { bytes[$0] } }
            let ticks = owner.startBoottimeNanoseconds / 10_000_000
            reports.append(ReceivedReport(pid: owner.pid, uid: 0, startTicks: ticks, datagram: datagram))
        }
        if self.chance(5) { self.dropped += 1 }
        events.append(.reports(reports, dropped: self.dropped))
    }

    private mutating func record(_ index: Int, _ owner: ProcessIdentity) -> Report.Record {
        let cookie = self.sockets[index].observation.cookie.rawValue
        if self.chance(8) {
            var connection = Report.Connection(cookie: cookie)
            connection.sent.tls = 20 * self.exchange
            return .connection(connection)
        }
        if self.chance(20), let place = self.open.indices.randomElement(using: &self.random) {
            let known = self.open.remove(at: place)
            var exchange = Report.Exchange(number: known.number, name: self.name(known.number))
            (exchange.startedAt, exchange.role) = (known.startedAt, .client)
            exchange.outcome = self.outcome()
            return .exchange(exchange)
        }
        self.exchange += 1
        var exchange = Report.Exchange(number: self.exchange, name: self.name(self.exchange))
        (exchange.cookie, exchange.startedAt) = (cookie, self.now - 200 - self.exchange)
        exchange.role = self.chance(50) ? .server : .client
        let isServer = exchange.role == .server
        let request = self.number(60..<2_000)
        let from = isServer ? self.sockets[index].claimed.received : self.sockets[index].claimed.sent
        exchange.request = self.message(from, request)
        let start = isServer ? self.sockets[index].claimed.sent : self.sockets[index].claimed.received
        let response = self.number(60..<9_000)
        let hasResponse = self.chance(70)
        if hasResponse { exchange.response = self.message(start, response) }
        if isServer {
            self.sockets[index].claimed.received += request
            self.sockets[index].claimed.sent += hasResponse ? response : 0
        } else {
            self.sockets[index].claimed.sent += request
            self.sockets[index].claimed.received += hasResponse ? response : 0
        }
        if hasResponse && self.chance(80) {
            exchange.outcome = self.outcome()
        } else {
            self.open.append((self.exchange, owner, exchange.startedAt))
        }
        return .exchange(exchange)
    }

    private func name(_ number: UInt64) -> Report.Name {
        Report.Name(method: "GET", host: "host\(number % 3).example", route: "/users/{id}/\(number % 2)")
    }

    private mutating func message(_ from: UInt64, _ bytes: UInt64) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        // Some messages begin behind the last, so that there are gaps and overlaps.
        let start = from + (self.chance(5) ? 30 : 0)
        message.interval = .init(from: start, to: start + bytes)
        (message.lineBytes, message.headerBytes, message.cookieBytes) = (20, 30, 5)
        message.bodyBytes = bytes - 50
        message.decodedBodyBytes = self.chance(80) ? message.bodyBytes : nil
        (message.status, message.version, message.quality) = (200, .http1_1, .exact)
        message.contentClass = Report.ContentClass.allCases.randomElement(using: &self.random) ?? .other
        return message
    }

    private mutating func outcome() -> Report.Exchange.Outcome {
        var outcome = Report.Exchange.Outcome()
        outcome.duration = self.number(1_000..<9_000_000_000)
        outcome.status = self.chance(80) ? 200 : 503
        outcome.ending = outcome.status == 200 ? .ok : .http5xx
        outcome.phases.wait = UInt32(self.number(0..<9_000))
        outcome.isFirst = self.chance(30)
        return outcome
    }
}
