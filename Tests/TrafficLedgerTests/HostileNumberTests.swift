import Testing
import TrafficAudit
import TrafficEvents
import TrafficExport
import TrafficModel
import TrafficView

@testable import TrafficLedger

/// Numbers that no host's traffic reaches, but that a forged packet or a kernel defect may put into a counter.
@Suite("Numbers at the end of 64 bits")
struct HostileNumberTests {
    private typealias F = LedgerFixture

    private static func bytes(_ number: UInt64) -> WireBytes {
        WireBytes(payload: number, headers: number, bare: number, control: number)
    }

    private static func socket(
        _ serial: UInt64,
        _ number: UInt64,
        _ change: (inout SocketObservation) -> Void = { _ in }
    ) -> CaptureEvent {
        let payload = PayloadBytes(sent: number, received: number)
        let owners = [Int32(1), 2].map { pid in
            OwnerObservation(identity: F.process(pid, start: number), name: "app", payload: payload)
        }
        let event = F.socket(
            serial,
            owners,
            retransmitted: number,
            pending: number,
            wire: SocketWire(sent: self.bytes(number), received: self.bytes(number)),
            stream: TCPStream(
                sent: number,
                received: number,
                unsent: number,
                unread: number,
                sentLength: .max,
                urgent: .min,
                early: number
            ),
            unowned: payload
        )
        guard case .socket(var observation) = event else { return event }
        observation.openedBoottimeNanoseconds = number
        observation.connect = ConnectTimes(beganAt: 0, endedAt: number)
        change(&observation)
        return .socket(observation)
    }

    private static func packets(_ number: UInt64) -> InterfacePackets.Bytes {
        InterfacePackets.Bytes(
            packets: number,
            ip: number,
            other: number,
            offloadedPackets: number,
            offloaded: number,
            fragments: number,
            socket: number,
            noSocket: number,
            answers: number
        )
    }

    private static func round(_ number: UInt64, _ f: inout LedgerFixture) {
        let owner = F.owner(F.process(3), sent: number, received: number)
        f.absorb(
            self.socket(1, number) { $0.owners.append(owner) },
            self.socket(2, number) { $0.preexisting = true },
            self.socket(3, number) { $0.stream?.isFramed = true },
            self.socket(4, number) { $0.role = .listener },
            self.socket(5, number) { $0.closedBoottimeNanoseconds = f.now },
            self.socket(6, number) { $0.closedBoottimeNanoseconds = number },
            self.socket(7, number) { $0.wire?.quality = .estimated },
            self.socket(8, number) { $0.stream?.urgent = .max },
            .packets([
                InterfacePackets(
                    networkNamespace: 1,
                    index: 1,
                    sent: self.packets(number),
                    received: self.packets(number)
                ),
                InterfacePackets(networkNamespace: 2, index: 1, sent: self.packets(number)),
            ]),
            .interfaces([
                InterfaceUsage(
                    name: "eth0",
                    sentBytes: number,
                    receivedBytes: number,
                    sentPackets: number,
                    receivedPackets: number,
                    networkNamespace: 1,
                    index: 1,
                    linkHeaderLength: .max
                ),
                InterfaceUsage(
                    name: "eth1",
                    sentBytes: number / 3,
                    receivedBytes: number,
                    sentPackets: 1,
                    receivedPackets: number / 2,
                    networkNamespace: 1,
                    index: 2,
                    linkHeaderLength: 14
                ),
            ]),
            .loss(
                CaptureLoss(
                    ringFull: number,
                    mapFull: number,
                    recordsMalformed: number,
                    reportsDropped: number,
                    reportsRejected: number,
                    countersBackwards: number,
                    missedRuns: number
                )
            ),
            .exited(F.process(2, start: number), at: Timestamp(nanosecondsSinceEpoch: .max))
        )
    }

    /// Each series runs twice, so that a counter meets the numbers at its start and again later.
    static let series: [[UInt64]] = [
        [.max], [.max - 1, .max], [1 << 63, (1 << 63) + 1], [1 << 62, .max], [0, .max], [.max, 0], [UInt64(Int64.max)],
    ]

    @Test("a sum that overflows stays at the largest number, from the capture to every view", arguments: series)
    func wholeWay(_ numbers: [UInt64]) throws {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(2), closedSockets: .seconds(2)))
        for number in numbers + numbers {
            Self.round(number, &f)
            f.tick()
        }
        f.tick(after: 5)
        f.tick(after: 5)
        let snapshot = f.snapshot
        let largest = numbers.max() ?? 0
        #expect(snapshot.totals.bytes.payload.sent >= largest)
        #expect(snapshot.totals.bytes.wireReceived ?? 0 >= largest)
        #expect(snapshot.capture.loss.isLossy)
        var subjects: [AuditSubject] = [.host, .interface("eth0"), .interface("eth1"), .process(1)]
        subjects += (snapshot.sockets ?? []).map { .socket($0.cookie) }
        for subject in subjects {
            let report = try AuditReport(of: subject, in: f.reading)
            #expect(!report.json().isEmpty)
            #expect(AuditView(typeface: .ascii, width: 80).frame(of: report).rows.count > 2)
        }
        #expect(!snapshot.json().isEmpty && !snapshot.ndjson().isEmpty)
        for table in [Snapshot.Table.processes, .sockets, .endpoints] {
            #expect(!snapshot.csv(table).isEmpty && !snapshot.tsv(table).isEmpty)
        }
        for table in [Table.processes(snapshot), Table.sockets(snapshot)] {
            #expect(!table.frame(width: 160, typeface: .ascii, units: .bytes).rows.isEmpty)
        }
        for grouping in Grouping.allCases {
            var top = TopState(
                size: TopState.Size(width: 160, height: 50),
                typeface: .ascii,
                address: "/",
                settings: TopSettings(group: grouping, units: .bits)
            )
            top.receive(snapshot)
            top.tick(now: Timestamp(nanosecondsSinceEpoch: .max))
            #expect(!top.frame().rows.isEmpty)
        }
    }
}
