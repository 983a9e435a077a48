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
}
