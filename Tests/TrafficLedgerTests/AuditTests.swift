import Testing
import TrafficAudit
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

@Suite("The audit")
struct AuditTests {
    private typealias F = LedgerFixture

    /// A TCP socket on which all counters agree: 1,000 bytes sent, 100 of them twice; 500 received, 50 of them unread.
    private static func evidence(_ change: (inout SocketEvidence) -> Void = { _ in }) -> SocketEvidence {
        var evidence = SocketEvidence(
            payload: PayloadBytes(sent: 1_000, received: 450),
            pendingSent: 0,
            retransmitted: 100,
            wire: SocketWire(
                sent: WireBytes(payload: 1_100, headers: 104, bare: 52, control: 112),
                received: WireBytes(payload: 500, headers: 52, bare: 52, control: 112)
            ),
            stream: TCPStream(sent: 1_100, received: 500, unsent: 0, unread: 50, sentLength: 1_000),
            isListener: false,
            isClosed: false,
            preexisting: false
        )
        change(&evidence)
        return evidence
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var change: @Sendable (inout SocketEvidence) -> Void
        var sent: [AuditLine: Int64] = [:]
        var received: [AuditLine: Int64] = [:]
    }

    static let cases: [Case] = [
        Case(testDescription: "all agree", change: { _ in }, sent: [.again: 100], received: [.waiting: 50]),
        Case(
            testDescription: "a call's bytes are missing, and the socket has closed",
            change: {
                $0.payload.sent = 900; $0.isClosed = true
            },
            sent: [.again: 100, .unexplained: 100],
            received: [.abandoned: 50]
        ),
        Case(
            testDescription: "a call has not returned",
            change: {
                $0.payload.sent = 900; $0.pendingSent = 100
            },
            sent: [.pending: 100, .again: 100],
            received: [.waiting: 50]
        ),
        Case(
            testDescription: "received bytes are missing",
            change: { $0.payload.received = 440 },
            sent: [.again: 100],
            received: [.waiting: 50, .unexplained: 10]
        ),
        Case(
            testDescription: "received bytes are counted twice",
            change: { $0.payload.received = 900 },
            sent: [.again: 100],
            received: [.waiting: 50, .unexplained: -450]
        ),
        Case(
            testDescription: "packets were not counted",
            change: { $0.wire?.received.payload = 400 },
            sent: [.again: 100],
            received: [.waiting: 50, .unexplained: -100]
        ),
        Case(
            testDescription: "a firewall dropped what TCP sent",
            change: { $0.wire?.sent.payload = 1_000 },
            sent: [.again: 100, .dropped: -100],
            received: [.waiting: 50]
        ),
        Case(
            testDescription: "a queue of this host dropped, and TCP sent again without calling it a retransmission",
            change: {
                $0.stream?.sent = 1_200; $0.wire?.sent.payload = 1_200
            },
            sent: [.again: 100, .againAfterDrop: 100],
            received: [.waiting: 50]
        ),
        Case(
            testDescription: "the peer sent some twice",
            change: { $0.wire?.received.payload = 700 },
            sent: [.again: 100],
            received: [.waiting: 50, .again: 200]
        ),
        Case(
            testDescription: "payload came in the handshake, of which some was forgotten",
            change: {
                $0.wire?.received.payload = 380; $0.stream?.early = 20; $0.stream?.isEarlyUnknown = true
            },
            sent: [.again: 100],
            received: [.waiting: 50, .handshakePayload: -120]
        ),
        Case(
            testDescription: "the same, and nothing was forgotten",
            change: {
                $0.wire?.received.payload = 380; $0.stream?.early = 20
            },
            sent: [.again: 100],
            received: [.waiting: 50, .handshakePayload: -20, .unexplained: -100]
        ),
        Case(
            testDescription: "data in the handshake came in packets for the listener",
            change: {
                $0.wire?.received.payload = 380; $0.stream?.early = 120
            },
            sent: [.again: 100],
            received: [.waiting: 50, .handshakePayload: -120]
        ),
        Case(
            testDescription: "kernel TLS frames what the calls moved",
            change: {
                $0.payload = PayloadBytes(sent: 900, received: 400); $0.stream?.isFramed = true
            },
            sent: [.again: 100, .framing: 100],
            received: [.waiting: 50, .framing: 50]
        ),
        Case(
            testDescription: "older than the daemon",
            change: {
                $0.preexisting = true; $0.payload = PayloadBytes(sent: 1_010, received: 600)
            },
            sent: [.earlier: 90],
            received: [.earlier: -100]
        ),
        Case(
            testDescription: "in use while it was read",
            change: {
                $0.stream?.isInUse = true; $0.payload.received = 440
            },
            sent: [.again: 100],
            received: [.waiting: 50, .inUse: 10]
        ),
        Case(
            testDescription: "datagrams: one waits in a cork, two were never read",
            change: {
                $0.stream = nil; $0.retransmitted = 0; $0.wire?.sent.payload = 900
            },
            sent: [.datagrams: -100],
            received: [.datagrams: 50]
        ),
        Case(
            testDescription: "packets are not seen, and TCP judges the calls, also with data in the handshake",
            change: {
                $0.wire?.quality = .derived; $0.stream?.early = 120
            },
            sent: [.again: 100],
            received: [.waiting: 50]
        ),
        Case(
            testDescription: "neither packets nor TCP's stream are seen",
            change: {
                $0.wire?.quality = .estimated; $0.stream = nil
            },
            sent: [.estimated: 100],
            received: [.estimated: 50]
        ),
        Case(
            testDescription: "the urgent byte was never read",
            change: {
                $0.payload.received = 449; $0.stream?.urgent = 1
            },
            sent: [.again: 100],
            received: [.waiting: 50, .urgent: 1]
        ),
    ]

    @Test("every difference between calls, TCP and packets has a line", arguments: cases)
    func lines(_ test: Case) {
        let evidence = Self.evidence(test.change)
        let always: Set<AuditLine> = [.payload, .headers, .acknowledgements, .handshake]
        for (tally, expected, payload, wire) in [
            (evidence.tallies.sent, test.sent, evidence.payload.sent, evidence.wire?.sent),
            (evidence.tallies.received, test.received, evidence.payload.received, evidence.wire?.received),
        ] {
            for line in AuditLine.allCases where !always.contains(line) {
                #expect(tally[line] == expected[line] ?? 0, "\(line)")
            }
            #expect(tally[.payload] == Int64(payload))
            // In every case the lines add up to the packets' bytes.
            let sum = AuditLine.allCases.reduce(Int64(0)) { $0 + tally[$1] }
            #expect(sum == Int64(wire?.total ?? 0))
        }
        let isWrong = test.sent[.unexplained] ?? 0 != 0 || test.received[.unexplained] ?? 0 != 0
        #expect(evidence.isDisputed == isWrong)
    }

    @Test("lines are numbered in their order")
    func positions() {
        #expect(AuditLine.allCases.map(\.position) == Array(AuditLine.allCases.indices))
    }

    @Test("a tally keeps what was set, in any order, and drops lines that came to 0")
    func tally() {
        var tally = AuditTally()
        for line in AuditLine.allCases.reversed() { tally[line] = Int64(line.position) }
        for line in AuditLine.allCases { #expect(tally[line] == Int64(line.position)) }
        var negative = AuditTally()
        for line in AuditLine.allCases { negative[line] = -Int64(line.position) }
        tally += negative
        #expect(tally == AuditTally())
    }

    private func report(_ f: F, _ subject: AuditSubject = .host) throws -> AuditReport {
        try AuditReport(of: subject, in: f.reading)
    }

    /// The sums of a direction, each with the total of the lines above it.
    private static func sums(_ lines: [AuditReport.Line]) -> [(AuditLine, stated: Int64, added: Int64)] {
        var sum: Int64 = 0
        var sums: [(AuditLine, Int64, Int64)] = []
        for line in lines {
            if line.line.isSum { sums.append((line.line, line.bytes, sum)) } else { sum += line.bytes }
        }
        return sums
    }

    @Test("forgotten sockets and their disagreements stay in the audits of the host and of their process")
    func forgotten() throws {
        var f = F(retention: Ledger.Retention(closedSockets: .seconds(2)))
        let wire = SocketWire(sent: WireBytes(payload: 90, headers: 52), received: WireBytes())
        let stream = TCPStream(sent: 90, sentLength: 90)
        f.absorb(F.socket(1, [F.owner(F.process(7), sent: 80)], closed: f.now, wire: wire, stream: stream))
        f.tick()
        let listed = (host: try self.report(f), process: try self.report(f, .process(7)))
        f.tick(after: 5)
        #expect(f.snapshot.sockets?.isEmpty == true)
        let gone = (host: try self.report(f), process: try self.report(f, .process(7)))
        for report in [listed.host, listed.process, gone.host, gone.process] {
            #expect(report.unexplained == 10)
            #expect(report.disputes.map(\.unexplained) == [10])
            #expect(report.disputes.first?.payload == 80 && report.disputes.first?.tcp == 90)
            for (line, stated, added) in Self.sums(report.sections[0].sent) { #expect(stated == added, "\(line)") }
        }
        #expect(listed.host.sections[0].sent == gone.host.sections[0].sent)
        #expect(listed.process.sections[0].sent == gone.process.sections[0].sent)
    }

    @Test("a process's audit of a shared socket comes to its own wire bytes")
    func shared() throws {
        var f = F()
        let owners = [F.owner(F.process(7), sent: 60), F.owner(F.process(8), sent: 30)]
        let wire = SocketWire(sent: WireBytes(payload: 90, headers: 53), received: WireBytes())
        f.absorb(F.socket(1, owners, wire: wire, stream: TCPStream(sent: 90, sentLength: 90)))
        f.tick()
        for pid in [Int32(7), 8] {
            let section = try self.report(f, .process(pid)).sections[0]
            let process = f.snapshot.processes?.first { $0.identity.pid == pid }
            #expect(section.sent.last?.line == .wire)
            #expect(section.sent.last?.bytes == Int64(process?.bytes.wireSent ?? 0))
            for (_, stated, added) in Self.sums(section.sent) { #expect(stated == added) }
        }
    }

    @Test("the host's audit continues to the interfaces, and bytes there without a sender are unexplained")
    func interfaces() throws {
        var f = F()
        let wire = SocketWire(sent: WireBytes(payload: 90, headers: 52), received: WireBytes(payload: 10, headers: 52))
        let stream = TCPStream(sent: 90, received: 10, sentLength: 90)
        f.absorb(F.socket(1, [F.owner(F.process(7), sent: 90, received: 10)], wire: wire, stream: stream))
        func look(sent: UInt64) throws -> AuditReport {
            f.absorb(
                .packets([
                    InterfacePackets(
                        networkNamespace: 1,
                        index: 1,
                        sent: .init(packets: 2, ip: sent, socket: 142, noSocket: 40),
                        received: .init(packets: 2, ip: 162, socket: 62)
                    )
                ])
            )
            f.tick()
            return try self.report(f)
        }
        let right = try look(sent: 182)
        #expect(right.unexplained == 0)
        #expect(right.sections[0].sent.last == .init(line: .interfaceWire, bytes: 182))
        #expect(right.sections[0].received.contains(.init(line: .noSocket, bytes: 100)))
        // 170 is less than the socket and the kernel sent: a queue dropped the rest. 190 is more, and 8 bytes
        // have no sender.
        #expect(try look(sent: 170).sections[0].sent.contains(.init(line: .queues, bytes: -12)))
        #expect(try look(sent: 190).unexplained == 8)
        // While the capture awaits rows, the 8 bytes may be of sockets that closed.
        f.capture.awaitsRows = true
        let early = try look(sent: 190)
        #expect(early.unexplained == 0)
        #expect(early.sections[0].sent.contains(.init(line: .onItsWay, bytes: 8)))
        for (line, stated, added) in Self.sums(early.sections[0].sent) { #expect(stated == added, "\(line)") }
    }

    @Test(
        "packets that the tracepoint missed are in the interface's own counter, and so in the host's audit"
    )
    func passedOver() throws {
        var f = F()
        let wire = SocketWire(received: WireBytes(payload: 900, headers: 52))
        func look(_ seen: UInt64, _ counter: UInt64, socket: UInt64) throws -> AuditReport {
            f.absorb(
                .packets([
                    InterfacePackets(
                        networkNamespace: 1,
                        index: 1,
                        received: .init(packets: 1, ip: seen, socket: socket)
                    )
                ]),
                .interfaces([
                    InterfaceUsage(
                        name: "lo",
                        sentBytes: 0,
                        receivedBytes: counter,
                        sentPackets: 0,
                        receivedPackets: 1,
                        networkNamespace: 1,
                        index: 1,
                        linkHeaderLength: 0
                    )
                ])
            )
            f.tick()
            return try self.report(f)
        }
        _ = try look(0, 5_000, socket: 0)
        let owner = F.owner(F.process(7), received: 900)
        f.absorb(F.socket(1, [owner], wire: wire, stream: TCPStream(received: 900)))
        var report = try look(452, 5_952, socket: 952)
        // At one look the packet may be on its way; after three looks in a row it is missing.
        for _ in 0..<2 { report = try look(452, 5_952, socket: 952) }
        #expect(report.unexplained == 0)
        #expect(report.sections[0].received.last == .init(line: .interfaceWire, bytes: 952))
    }

    @Test("the error names the subject that is not there")
    func absent() {
        let f = F()
        #expect(throws: AuditError.noSuchProcess(3)) { try self.report(f, .process(3)) }
        #expect(throws: AuditError.noSuchInterface("eth9", known: [])) { try self.report(f, .interface("eth9")) }
        #expect(throws: AuditError.noSuchSocket(SocketCookie(rawValue: 4))) {
            try self.report(f, .socket(SocketCookie(rawValue: 4)))
        }
    }
}
