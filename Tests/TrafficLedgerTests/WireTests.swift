import TestSupport
import Testing
import TrafficAudit
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

@Suite("Wire bytes in the ledger")
struct WireTests {
    private typealias F = LedgerFixture
    private static let first = F.process(1), second = F.process(2)

    private static func wire(_ sent: UInt64, _ received: UInt64, _ quality: Quality = .exact) -> SocketWire {
        SocketWire(sent: WireBytes(headers: sent), received: WireBytes(headers: received), quality: quality)
    }

    private static func wire(of pid: Int32, in snapshot: Snapshot) -> [UInt64?] {
        let process = snapshot.processes?.first { $0.identity.pid == pid }
        return [process?.bytes.wireSent, process?.bytes.wireReceived]
    }

    @Test("a socket's packets count for its only process; those of a socket without a process wait for one")
    func onlyOwner() {
        var f = F()
        f.absorb(F.socket(1, [], wire: Self.wire(60, 120)))
        f.tick()
        #expect(Self.wire(of: 1, in: f.snapshot) == [nil, nil])
        #expect(f.snapshot.totals.bytes.wireSent == 60)
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 1)], wire: Self.wire(160, 220)))
        f.tick()
        #expect(Self.wire(of: 1, in: f.snapshot) == [160, 220])
        #expect(f.snapshot.sockets?.first?.wireQuality == .exact)
        #expect(f.snapshot.totals.bytes.wireReceived == 220)
    }

    @Test("what was estimated when it was counted is summed wherever wire bytes are, to the byte")
    func estimated() throws {
        var f = F()
        let owners = [F.owner(Self.first, sent: 3), F.owner(Self.second, sent: 1)]
        f.absorb(F.socket(1, owners, wire: Self.wire(100, 20, .derived)))
        f.absorb(F.socket(2, [F.owner(Self.first, sent: 1)], wire: Self.wire(7, 0, .exact)))
        f.tick()
        #expect(f.snapshot.totals.bytes.wireEstimated == 0)
        // A packet is lost. What was derived before that stays derived.
        f.absorb(F.socket(1, owners, wire: Self.wire(170, 51, .estimated)))
        // Of sockets without records the daemon does not know.
        let row = FoldedRows.Row(owner: F.owner(Self.second), wire: WireTotals(sent: 1, received: 2, estimated: 3))
        f.absorb(.rows(FoldedRows(generation: 1, processes: [row])))
        f.tick()
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint())
        f.tick()
        #expect(f.snapshot.totals.bytes.wireEstimated == 104)
        #expect(f.snapshot.totals.byScope.mapValues(\.wireEstimated) == ["loopback": 101])
        #expect((1...2).map { f.socket($0)?.bytes.wireEstimated } == [101, 0])
        // A quarter of 70 sent is 17, and of 31 received 7, and so much of it is estimated. The rest is of the process that
        // moved most. 3 are of the row.
        #expect((1...2).map { f.process($0)?.bytes.wireEstimated } == [77, 27])
        #expect(f.balance.bytes.wireEstimated == 104 && f.metrics.host?.bytes.wireEstimated == 104)
        #expect(f.balance.groups.withoutProcess.wireEstimated == 104)
    }

    @Test(
        "nobody has more estimated wire bytes than wire bytes, however they are shared",
        arguments: 0..<20 as Range<UInt64>
    )
    func estimatedShares(seed: UInt64) throws {
        var random = Seeded(seed)
        var f = F()
        for serial in 1...100 as ClosedRange<UInt64> {
            // Bytes of both qualities wait for a process.
            var wire = [UInt64.random(in: 0...7, using: &random), .random(in: 0...7, using: &random)]
            f.absorb(F.socket(serial, [], wire: Self.wire(wire[0], wire[1], .derived)))
            wire = wire.map { $0 + .random(in: 0...7, using: &random) }
            f.absorb(F.socket(serial, [], wire: Self.wire(wire[0], wire[1], .estimated)))
            let weights = (0..<5).map { _ in UInt64.random(in: 0...9, using: &random) }
            let owners = weights.enumerated().map { F.owner(F.process(Int32(100 * serial) + Int32($0)), sent: $1) }
            let inRows = PayloadBytes(sent: .random(in: 0...3, using: &random))
            f.absorb(F.socket(serial, owners, wire: Self.wire(wire[0], wire[1], .estimated), inRows: inRows))
        }
        f.tick()
        let rows = f.snapshot.processes ?? []
        #expect(rows.count > 300)
        for row in rows {
            #expect(row.bytes.wireEstimated <= (row.bytes.wireSent ?? 0) + (row.bytes.wireReceived ?? 0))
        }
        let unowned = f.balance.groups.unowned
        #expect(unowned.wireEstimated <= (unowned.wireSent ?? 0) + (unowned.wireReceived ?? 0))
        let sum = rows.reduce(unowned.wireEstimated) { $0 + $1.bytes.wireEstimated }
        #expect(sum == f.snapshot.totals.bytes.wireEstimated)
    }

    @Test("what was derived and what was estimated are shared together, to the byte")
    func surplusOfEstimates() throws {
        var f = F()
        f.absorb(F.socket(1, [], wire: Self.wire(1, 0, .derived)), F.socket(1, [], wire: Self.wire(4, 4, .estimated)))
        let owners = zip([2, 1, 1] as [UInt64], 1...).map { F.owner(F.process($1), sent: $0) }
        f.absorb(F.socket(1, owners, wire: Self.wire(4, 4, .estimated)))
        f.tick()
        let rows = (1...3).map { f.process($0)?.bytes }
        #expect(rows.map { ($0?.wireSent ?? 0) + ($0?.wireReceived ?? 0) } == [4, 2, 2])
        #expect(rows.reduce(0) { $0 + ($1?.wireEstimated ?? 0) } == 7)
        #expect(rows.allSatisfy { ($0?.wireEstimated ?? 9) <= ($0?.wireSent ?? 0) + ($0?.wireReceived ?? 0) })
    }

    @Test("packets of a connection that no process accepted count for the kernel")
    func neverAccepted() {
        var f = F()
        f.absorb(F.socket(1, [], closed: f.now, wire: Self.wire(60, 120)))
        f.tick()
        #expect(Self.wire(of: 0, in: f.snapshot) == [60, 120])
        #expect(f.snapshot.processes?.first?.details.name == "kernel")
        #expect(f.snapshot.totals.bytes.wireSent == 60)
    }

    @Test(
        "processes share a socket's packets in proportion to what they moved, to the byte",
        arguments: [
            (UInt64(1), UInt64(1), UInt64(101)), (1, 2, 100), (0, 0, 77), (0, 5, 9), (1 << 63, 1 << 62, UInt64.max - 7),
        ]
    )
    func shares(first: UInt64, second: UInt64, packets: UInt64) throws {
        var f = F()
        let owners = [F.owner(Self.first, sent: first), F.owner(Self.second, sent: second)]
        f.absorb(F.socket(1, owners, wire: Self.wire(packets, 0)))
        f.tick()
        let one = try #require(Self.wire(of: 1, in: f.snapshot)[0])
        let two = try #require(Self.wire(of: 2, in: f.snapshot)[0])
        #expect(one + two == packets)
        if first > second { #expect(one >= two) }
        if first == 0 && second > 0 { #expect(one == 0) }
    }

    @Test("estimates of a preexisting connection count from the first look on, packets from the first packet")
    func baseline() {
        var f = F()
        let owner = F.owner(Self.first)
        f.absorb(F.socket(1, [owner], preexisting: true, wire: Self.wire(1_000, 500, .estimated)))
        f.absorb(F.socket(1, [owner], preexisting: true, wire: Self.wire(1_060, 580, .estimated)))
        f.absorb(F.socket(2, [F.owner(Self.second)], preexisting: true, wire: Self.wire(7, 9)))
        f.tick()
        #expect(Self.wire(of: 1, in: f.snapshot) == [60, 80])
        #expect(Self.wire(of: 2, in: f.snapshot) == [7, 9])
        #expect(f.snapshot.sockets?.map(\.wireQuality) == [.estimated, .exact])
    }

    private static func packets(sent: UInt64, noSocket: UInt64, received: UInt64, sockets: UInt64) -> CaptureEvent {
        .packets([
            InterfacePackets(
                networkNamespace: 1,
                index: 1,
                sent: .init(packets: 1, ip: sent, noSocket: noSocket),
                received: .init(packets: 1, ip: received, socket: sockets)
            )
        ])
    }

    @Test("packets without a socket count in the row kernel; a packet still on its way to a socket does not")
    func kernel() {
        var f = F()
        // The second look finds 1,000 bytes between the interface and their socket.
        for (received, sockets) in [(140, 100), (1_240, 200), (1_240, 1_200), (1_240, 1_200), (1_240, 1_200)] {
            f.absorb(Self.packets(sent: 500, noSocket: 52, received: UInt64(received), sockets: UInt64(sockets)))
            f.tick()
        }
        #expect(Self.wire(of: 0, in: f.snapshot) == [52, 40])
        #expect(f.snapshot.totals.bytes.wireReceived == 40)
    }

    @Test("an interface's counters are compared from the first look on, a later interface's from its creation on")
    func interfaces() throws {
        var f = F()
        func look(_ bytes: UInt64, _ seen: UInt64, also born: UInt64? = nil) throws -> InterfaceEvidence {
            var usages = [
                InterfaceUsage(
                    name: "eth0",
                    sentBytes: bytes,
                    receivedBytes: 0,
                    sentPackets: 100 + (seen - 100) / 100,
                    receivedPackets: 0,
                    networkNamespace: 1,
                    index: 1,
                    linkHeaderLength: 14
                )
            ]
            var packets = [
                InterfacePackets(networkNamespace: 1, index: 1, sent: .init(packets: seen / 100, ip: seen))
            ]
            if let born {
                usages.append(
                    InterfaceUsage(
                        name: "eth1",
                        sentBytes: born,
                        receivedBytes: 0,
                        sentPackets: 1,
                        receivedPackets: 0,
                        networkNamespace: 1,
                        index: 2,
                        linkHeaderLength: 14
                    )
                )
                packets.append(
                    InterfacePackets(networkNamespace: 1, index: 2, sent: .init(packets: 1, ip: born - 14))
                )
            }
            f.absorb(.packets(packets), .interfaces(usages))
            f.tick()
            return try #require(f.snapshot.interfaces?.last?.evidence)
        }
        #expect(try look(11_400, 100).sent.lasting == 0)
        #expect(try look(11_400 + 1_140, 100 + 1_000).sent.lasting == 0)
        // The counter has 500 bytes more. At first they may be on their way; at the third look the difference lasts.
        #expect(try look(11_400 + 1_640, 100 + 1_000).sent.lasting == 0)
        #expect(try look(11_400 + 1_640, 100 + 1_000).sent.lasting == 0)
        #expect(try look(11_400 + 1_640, 100 + 1_000).sent.lasting == 500)
        #expect(try look(11_400 + 1_640, 100 + 1_000, also: 64).sent.lasting == 0)
    }

    @Test("a counter that falls is never shown, and counts as a loss")
    func backwards() {
        var f = F()
        let stream = TCPStream()
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 100)], stream: stream))
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 40)], stream: stream))
        f.tick()
        #expect(f.snapshot.processes?.first?.bytes.payload.sent == 100)
        #expect(f.snapshot.capture.loss.countersBackwards == 1)
        #expect(f.snapshot.capture.loss.isLossy)
        // The record of a closed socket may overtake the one of a sweep.
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 120)], closed: f.now, stream: stream))
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 110)], stream: stream))
        f.tick()
        #expect(f.snapshot.processes?.first?.bytes.payload.sent == 120)
        #expect(f.snapshot.capture.loss.countersBackwards == 1)
    }

    @Test("a process that runs another program takes the program's name and is looked up again")
    func executed() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(Self.first, sent: 1, name: "sh")]))
        #expect(f.ledger.takeUnresolved().map(\.name) == ["sh"])
        f.absorb(
            .executed(Self.first, Execution(name: "curl", uid: 0, boottimeNanoseconds: .max)),
            .executed(Self.second, Execution(name: "stranger", uid: 0, boottimeNanoseconds: .max))
        )
        f.tick()
        #expect(f.snapshot.processes?.map(\.details.name) == ["curl"])
        #expect(f.ledger.takeUnresolved().map(\.name) == ["curl"])
    }

    private static func passed(_ namespace: UInt32, _ index: UInt32, sent: UInt64, received: UInt64) -> InterfacePackets
    {
        InterfacePackets(
            networkNamespace: namespace,
            index: index,
            sent: InterfacePackets.Bytes(ip: sent, noSocket: sent),
            received: InterfacePackets.Bytes(ip: received)
        )
    }

    @Test("the bytes of an interface that is gone move to the row of all gone interfaces and count once")
    func goneInterfaces() {
        var f = F()
        let tell = { (packets: [InterfacePackets]) in
            f.absorb(.packets(packets))
            f.tick()
        }
        for _ in 0..<4 {
            tell([Self.passed(7, 1, sent: 10, received: 20), Self.passed(8, 1, sent: 100, received: 200)])
        }
        #expect(Self.wire(of: 0, in: f.snapshot) == [110, 220])
        // One interface is absent, the other's map element started again from 0; new bytes came meanwhile.
        for _ in 0..<4 {
            tell([Self.passed(7, 1, sent: 1, received: 2), Self.passed(0, 0, sent: 111, received: 222)])
        }
        #expect(Self.wire(of: 0, in: f.snapshot) == [112, 224])
        #expect(f.reading.evidence.packets.count == 2)
        for number in UInt64(1)...1_000 {
            tell([
                Self.passed(UInt32(number), 1, sent: 1, received: 1),
                Self.passed(0, 0, sent: 112 + number - 1, received: 224 + number - 1),
            ])
        }
        for _ in 0..<4 { tell([Self.passed(0, 0, sent: 1_112, received: 1_224)]) }
        #expect(Self.wire(of: 0, in: f.snapshot) == [1_112, 1_224])
        #expect(f.reading.evidence.packets.count == 1)
    }

    @Test(
        "an interface that takes the index of a gone interface is audited from its own creation on",
        arguments: [false, true]
    )
    func indexTakenAgain(seenGone: Bool) throws {
        var f = F()
        let tell = { (bytes: UInt64?, seen: UInt64) in
            f.absorb(.packets([Self.passed(7, 2, sent: seen, received: 0)]))
            let usage = bytes.map {
                InterfaceUsage(
                    name: "veth0",
                    sentBytes: $0,
                    receivedBytes: 0,
                    sentPackets: 0,
                    receivedPackets: 0,
                    networkNamespace: 7,
                    index: 2,
                    linkHeaderLength: 0
                )
            }
            f.absorb(.interfaces(usage.map { [$0] } ?? []))
            f.tick()
        }
        for _ in 0..<4 { tell(5_000, 0) }
        for _ in 0..<4 { tell(6_000, 1_000) }
        if seenGone { tell(nil, 1_000) }
        for _ in 0..<4 { tell(300, 1_300) }
        #expect(try AuditReport(of: .interface("veth0"), in: f.reading).unexplained == 0)
    }
}
