import Testing
import TrafficModel

@testable import TrafficLedger

@Suite("What interfaces have counted since the count began")
struct InterfaceSumTests {
    private static func usage(
        _ name: String,
        _ index: UInt32?,
        _ bytes: UInt64,
        namespace: UInt32 = 7
    ) -> InterfaceUsage {
        InterfaceUsage(
            name: name,
            sentBytes: bytes,
            receivedBytes: 2 * bytes,
            sentPackets: bytes / 10,
            receivedPackets: bytes / 5,
            networkNamespace: namespace,
            index: index
        )
    }

    private static func sent(_ sums: InterfaceSums) -> [String: UInt64] {
        sums.totals.lives.reduce(into: [:]) { $0[$1.name, default: 0] += $1.counts.sentBytes }
    }

    @Test("of an interface that was there before, what came later counts; of a later one everything")
    func beginning() {
        var sums = InterfaceSums()
        sums.absorb([Self.usage("eth0", 2, 1_000_000)])
        #expect(Self.sent(sums) == ["eth0": 0])
        sums.absorb([Self.usage("eth0", 2, 1_000_070), Self.usage("wg0", 3, 500), Self.usage("old", nil, 9)])
        #expect(Self.sent(sums) == ["eth0": 70, "wg0": 500])
        #expect(
            sums.totals.lives.first?.counts
                == InterfaceCounts(sentBytes: 70, receivedBytes: 140, sentPackets: 7, receivedPackets: 14)
        )
    }

    @Test("counters that fall add nothing, and count from there on; another index is another interface")
    func falls() {
        var sums = InterfaceSums()
        sums.absorb([Self.usage("eth0", 2, 1_000)])
        sums.absorb([Self.usage("eth0", 2, 1_100)])
        sums.absorb([Self.usage("eth0", 2, 90)])
        #expect(Self.sent(sums) == ["eth0": 100])
        sums.absorb([Self.usage("eth0", 2, 130)])
        #expect(Self.sent(sums) == ["eth0": 140])
        // Made anew under the same name.
        sums.absorb([Self.usage("eth0", 5, 20)])
        #expect(Self.sent(sums) == ["eth0": 160] && sums.totals.lives.count == 2)
        // It has another name now.
        sums.absorb([Self.usage("wan", 5, 30)])
        #expect(Self.sent(sums) == ["eth0": 140, "wan": 30])
    }

    @Test("the last counters of one that went count, also of one that came and went between two looks")
    func lastCounters() {
        var sums = InterfaceSums()
        // Before the first look nobody knows what was counted earlier.
        sums.absorbLast([Self.usage("early", 9, 5_000)])
        sums.absorb([Self.usage("eth0", 2, 1_000), Self.usage("tun0", 3, 40)])
        sums.absorbLast([Self.usage("tun0", 3, 100), Self.usage("tun1", 4, 700), Self.usage("tun1", 5, 11)])
        sums.absorbLast([Self.usage("far", 6, 1, namespace: 8)])
        sums.absorb([Self.usage("eth0", 2, 1_000)])
        #expect(Self.sent(sums) == ["eth0": 0, "tun0": 60, "tun1": 711])
        // The message of a removal may come after a look that did not find the interface any more.
        sums.absorbLast([Self.usage("tun0", 3, 107)])
        #expect(Self.sent(sums) == ["eth0": 0, "tun0": 67, "tun1": 711])
    }

    @Test("an interface that comes back goes on; of many that are gone the first add up, and no byte is lost")
    func gone() {
        var sums = InterfaceSums()
        sums.absorb([Self.usage("lo", 1, 5)])
        sums.absorb([Self.usage("lo", 1, 5), Self.usage("eth0", 2, 10)])
        sums.absorb([Self.usage("lo", 1, 5)])
        sums.absorb([Self.usage("lo", 1, 5), Self.usage("eth0", 2, 15)])
        #expect(Self.sent(sums) == ["lo": 0, "eth0": 15])
        let most = UInt32(InterfaceSums.mostGone)
        for index in 3..<3 + most + 10 { sums.absorb([Self.usage("lo", 1, 5), Self.usage("veth\(index)", index, 7)]) }
        sums.absorb([Self.usage("lo", 1, 5)])
        let totals = sums.totals
        #expect(totals.lives.count == Int(most) + 1 && totals.lives.contains { $0.name == "veth\(3 + most + 9)" })
        // Of eth0 and the first ten.
        #expect(totals.endedLives.sentBytes == 15 + 10 * 7)
        let all = totals.lives.reduce(totals.endedLives.sentBytes) { $0 + $1.counts.sentBytes }
        #expect(all == 15 + UInt64(most + 10) * 7)
    }

    @Test("a daemon in another network namespace begins with what is there")
    func namespace() {
        var sums = InterfaceSums()
        sums.absorb([Self.usage("eth0", 2, 10)])
        sums.absorb([Self.usage("eth0", 2, 30)])
        sums.absorb([Self.usage("eth0", 2, 9_000, namespace: 8)])
        sums.absorb([Self.usage("eth0", 2, 9_001, namespace: 8)])
        #expect(Self.sent(sums) == ["eth0": 1] && sums.totals.endedLives.sentBytes == 20)
    }
}
