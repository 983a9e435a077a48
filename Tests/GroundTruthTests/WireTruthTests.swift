import Testing

@testable import GroundTruth

@Suite("the lab's own counters")
struct WireTruthTests {
    /// 3 packets of 1,000 bytes to the peer and 2 of 300 bytes back, one ARP packet each way.
    private var later: LabCounters {
        var counters = LabCounters()
        counters.atPeer = LabCounters.Arrivals(ip: 1000, discovery: 0, other: 28)
        counters.atNear = LabCounters.Arrivals(ip: 300, discovery: 0, other: 28)
        counters.veth.sentBytes = 1028 + 4 * 14
        counters.veth.sentPackets = 4
        counters.veth.receivedBytes = 328 + 3 * 14
        counters.veth.receivedPackets = 3
        return counters
    }

    @Test("filter and interface agree when link headers and ARP are taken into account")
    func agree() {
        let truth = WireTruth(from: LabCounters(), to: self.later)
        #expect(truth.disagreements == [])
        #expect(truth.near == WireTruth.Flow(sent: 1000, received: 300))
        #expect(truth.peer == WireTruth.Flow(sent: 300, received: 1000))
    }

    @Test("loopback counts for its own side, both ways")
    func loopback() {
        var later = self.later
        later.loopback.sentBytes = 50
        later.loopback.receivedBytes = 50
        later.peerLoopback.sentBytes = 7
        later.peerLoopback.receivedBytes = 7
        let truth = WireTruth(from: LabCounters(), to: later)
        #expect(truth.near == WireTruth.Flow(sent: 1050, received: 350))
        #expect(truth.peer == WireTruth.Flow(sent: 307, received: 1007))
        #expect(truth.disagreements == [])
    }

    @Test("a byte, a packet or an ARP packet that only one of them saw is a disagreement")
    func disagree() {
        let counters: [WritableKeyPath<LabCounters, UInt64>] = [
            \.atPeer.ip, \.atNear.ip, \.atPeer.other, \.atNear.other, \.veth.sentBytes, \.veth.sentPackets,
            \.veth.receivedBytes, \.veth.receivedPackets, \.veth.dropped,
        ]
        for counter in counters {
            var later = self.later
            later[keyPath: counter] += 1
            #expect(WireTruth(from: LabCounters(), to: later).disagreements.count == 1, "\(counter)")
        }
    }

    @Test("where the interface counts aggregates, its packets are not the filter's, but its drops still matter")
    func bridged() {
        var later = self.later
        later.veth.sentPackets = 1
        #expect(WireTruth(from: LabCounters(), to: later, isBridged: true).disagreements == [])
        later.veth.dropped = 1
        #expect(WireTruth(from: LabCounters(), to: later, isBridged: true).disagreements.count == 1)
    }

    @Test("what a dead process's lab has left is told from a living one's, and from other namespaces")
    func leftovers() {
        func startTicks(of pid: Int32) -> UInt64? { pid == 42 ? 1000 : nil }
        #expect(!NetworkLab.isLeftover("trafficd-lab-42-1000-7-near", startTicks: startTicks(of:)))
        #expect(
            NetworkLab.isLeftover("trafficd-lab-42-999-7-near", startTicks: startTicks(of:)),
            "the pid was used again"
        )
        #expect(NetworkLab.isLeftover("trafficd-lab-43-1000-7-peer", startTicks: startTicks(of:)))
        for name in ["trafficd-lab-43", "trafficd-lab-43-x-7-near", "trafficd-43-1000-7-near", "lab", ""] {
            #expect(!NetworkLab.isLeftover(name, startTicks: startTicks(of:)), "\(name)")
        }
    }
}
