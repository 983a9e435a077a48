import Testing
import TrafficModel

@Suite("What was moved between two balances")
struct BalanceTests {
    private static func bytes(_ sent: UInt64, wire: UInt64? = nil) -> ByteCounts {
        ByteCounts(payload: PayloadBytes(sent: sent, received: 1), pendingSent: 99, wireSent: wire)
    }

    private static func life(_ name: String, _ number: UInt64, sent: UInt64) -> GroupLife {
        let group = ProcessGroup(name: name, uid: 7)
        return GroupLife(group: group, number: number, beganBoottimeNanoseconds: 0, bytes: self.bytes(sent))
    }

    private static func balance(at boottime: UInt64, since: Int64 = 5, sent: UInt64) -> Balance {
        Balance(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            takenBoottimeNanoseconds: boottime,
            countingSince: Timestamp(nanosecondsSinceEpoch: since),
            bytes: self.bytes(sent, wire: 2 * sent),
            byScope: ["lan": self.bytes(sent), "loopback": self.bytes(3)],
            byClass: ["paid": self.bytes(sent)]
        )
    }

    @Test("sums, scopes and classes grow by their difference, and what has not grown is left out")
    func sums() throws {
        let growth = try #require(Self.balance(at: 2, sent: 30).growth(since: Self.balance(at: 1, sent: 10)))
        #expect(growth.bytes == ByteCounts(payload: PayloadBytes(sent: 20), wireSent: 40))
        #expect(growth.byScope == ["lan": ByteCounts(payload: PayloadBytes(sent: 20))])
        #expect(growth.byClass == ["paid": ByteCounts(payload: PayloadBytes(sent: 20))])
    }

    @Test("without an earlier balance everything has grown since the count began")
    func beginning() throws {
        var balance = Self.balance(at: 2, sent: 30)
        balance.groups = GroupTotals(lives: [Self.life("a", 1, sent: 30)])
        let growth = try #require(balance.growth(since: nil))
        #expect(growth.bytes.payload == PayloadBytes(sent: 30, received: 1) && growth.bytes.pendingSent == 0)
        #expect(growth.byScope["loopback"]?.payload.sent == 3)
        #expect(growth.byGroup.values.map(\.payload.sent) == [30])
    }

    @Test("a life that ended after the earlier balance has its last bytes in its user's row, and a second life all")
    func lives() throws {
        var (earlier, now) = (Self.balance(at: 1, sent: 15), Self.balance(at: 2, sent: 45))
        earlier.groups = GroupTotals(lives: [Self.life("a", 1, sent: 10), Self.life("b", 2, sent: 5)])
        now.groups = GroupTotals(
            lives: [Self.life("b", 2, sent: 8), Self.life("a", 4, sent: 20)],
            // All of a's first life, and a life that began and ended in between.
            endedLives: [7: ByteCounts(payload: PayloadBytes(sent: 12 + 5, received: 2))]
        )
        let growth = try #require(now.growth(since: earlier))
        #expect(
            growth.byGroup.mapValues(\.payload.sent) == [
                ProcessGroup(name: "b", uid: 7): 3, ProcessGroup(name: "a", uid: 7): 20, .other(of: 7): 7,
            ]
        )
        #expect(growth.byGroup[.other(of: 7)]?.payload == PayloadBytes(sent: 7, received: 1))
        #expect(growth.bytes.payload.sent == 3 + 20 + 7)
    }

    @Test("balances of two counts, or in the wrong order, can't be compared")
    func others() {
        #expect(Self.balance(at: 2, since: 6, sent: 30).growth(since: Self.balance(at: 1, sent: 10)) == nil)
        #expect(Self.balance(at: 1, sent: 30).growth(since: Self.balance(at: 2, sent: 10)) == nil)
        #expect(Self.balance(at: 1, sent: 30).growth(since: Self.balance(at: 1, sent: 30))?.byScope == [:])
    }

    @Test("a counter that is behind has added nothing, and one that was unknown has added all")
    func counters() {
        let earlier = ByteCounts(payload: PayloadBytes(sent: 5, received: 9), wireReceived: 4)
        let now = ByteCounts(payload: PayloadBytes(sent: 4, received: 10), pendingSent: 3, wireSent: 7, wireReceived: 4)
        #expect(
            now.growth(since: earlier) == ByteCounts(payload: PayloadBytes(received: 1), wireSent: 7, wireReceived: 0)
        )
        #expect(now.settled.pendingSent == 0 && now.settled.payload == now.payload)
    }

    private static func endpoint(_ route: String, _ counts: EndpointCounts) -> EndpointSum {
        let name = ServiceEndpoint(process: ProcessGroup(name: "a", uid: 7), role: .client, host: "h", route: route)
        return EndpointSum(endpoint: name, counts: counts)
    }

    @Test("each endpoint grows by itself, a new one by all it has, and one at rest is left out")
    func endpoints() throws {
        var (earlier, now) = (Self.balance(at: 1, sent: 1), Self.balance(at: 2, sent: 1))
        let before = EndpointCounts(requests: 5, ended: 4, failures: 1, sent: MessageParts(header: 9))
        earlier.endpoints = [Self.endpoint("/a", before), Self.endpoint("/b", before)]
        let later = EndpointCounts(
            requests: 8,
            ended: 8,
            failures: 1,
            sent: MessageParts(header: 11, body: 3),
            received: MessageParts(rest: 2)
        )
        now.endpoints = [Self.endpoint("/a", before), Self.endpoint("/b", later), Self.endpoint("/c", before)]
        let growth = try #require(now.growth(since: earlier)).byEndpoint
        #expect(growth.count == 2)
        #expect(growth[now.endpoints[2].endpoint] == before)
        #expect(
            growth[now.endpoints[1].endpoint]
                == EndpointCounts(
                    requests: 3,
                    ended: 4,
                    sent: MessageParts(header: 2, body: 3),
                    received: MessageParts(rest: 2)
                )
        )
        #expect(try #require(now.growth(since: nil)).byEndpoint.count == 3)
    }

    @Test(
        "a sum of bytes that wraps grows by its difference, and one that falls grows by nothing",
        arguments: [
            (UInt64.max - 4, 5, 10), (UInt64.max, UInt64.max, 0), (0, UInt64(Int64.max), UInt64(Int64.max)),
            (0, UInt64(Int64.max) + 1, 0), (100, 99, 0), (0, UInt64.max, 0),
        ] as [(UInt64, UInt64, UInt64)]
    )
    func wrapped(_ before: UInt64, _ after: UInt64, _ grown: UInt64) throws {
        var (earlier, now) = (Self.balance(at: 1, sent: 1), Self.balance(at: 2, sent: 1))
        func counts(_ requests: UInt64, _ bytes: UInt64) -> EndpointCounts {
            let parts = MessageParts(header: bytes, body: bytes, rest: bytes)
            return EndpointCounts(requests: requests, sent: parts, received: parts)
        }
        earlier.endpoints = [Self.endpoint("/a", counts(3, before))]
        now.endpoints = [Self.endpoint("/a", counts(4, after))]
        #expect(try #require(now.growth(since: earlier)).byEndpoint.values.first == counts(1, grown))
        // Numbers that fall, fall to nothing.
        now.endpoints = [Self.endpoint("/a", counts(2, before))]
        #expect(try #require(now.growth(since: earlier)).byEndpoint == [:])
    }

    @Test(
        "an interface that left the list has its last bytes in the row of all others, and each name has all its lives"
    )
    func interfaces() throws {
        func counts(_ number: UInt64) -> InterfaceCounts {
            InterfaceCounts(sentBytes: number, receivedBytes: 2 * number, sentPackets: 1, receivedPackets: number)
        }
        var (earlier, now) = (Self.balance(at: 1, sent: 1), Self.balance(at: 2, sent: 1))
        earlier.interfaces = InterfaceTotals(
            lives: [
                .init(name: "eth0", number: 1, counts: counts(10)), .init(name: "veth1", number: 2, counts: counts(5)),
            ],
            endedLives: counts(100)
        )
        now.interfaces = InterfaceTotals(
            lives: [
                .init(name: "wan", number: 1, counts: counts(14)), .init(name: "wan", number: 3, counts: counts(3)),
            ],
            endedLives: counts(100 + 5 + 2)
        )
        let growth = try #require(now.growth(since: earlier)).byInterface
        #expect(growth.mapValues(\.sentBytes) == ["wan": 4 + 3, "_other": 2])
        #expect(growth.mapValues(\.receivedPackets) == ["wan": 4 + 3, "_other": 2])
        #expect(try #require(now.growth(since: now)).byInterface == [:])
    }
}
