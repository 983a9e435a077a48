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
        #expect(truth.link == WireTruth.Flow(sent: 1000, received: 300))
        #expect(truth.atInterface == truth.link)
        #expect(truth.counter == WireTruth.Flow(sent: 1084, received: 370))
    }

    @Test("loopback is separate from the link, and part of the total")
    func loopback() {
        var later = self.later
        later.loopback.sentBytes = 50
        later.loopback.receivedBytes = 50
        let truth = WireTruth(from: LabCounters(), to: later)
        #expect(truth.link == WireTruth.Flow(sent: 1000, received: 300))
        #expect(truth.loopback == WireTruth.Flow(sent: 50, received: 50))
        #expect(truth.total == 1400)
        #expect(truth.disagreements == [])
    }

    @Test("only packets since the last reading count")
    func growth() {
        var latest = self.later
        latest.atPeer.ip += 60
        latest.veth.sentBytes += 74
        latest.veth.sentPackets += 1
        let truth = WireTruth(from: self.later, to: latest)
        #expect(truth.link == WireTruth.Flow(sent: 60, received: 0))
        #expect(truth.disagreements == [])
    }

    @Test("a byte, a packet or an ARP packet that only the filter or only the interface saw is a disagreement")
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

    @Test("an interface that counts aggregates has fewer packets than the filter, but its drops still matter")
    func aggregates() {
        var later = self.later
        later.veth.sentPackets = 2
        later.veth.sentBytes = 928 + 2 * 14
        later.veth.receivedBytes = 328
        let truth = WireTruth(from: LabCounters(), to: later, aggregates: true)
        #expect(truth.disagreements == [])
        #expect(truth.link.sent == 1000)
        #expect(truth.atInterface.sent == 900)
        later.veth.dropped = 1
        #expect(WireTruth(from: LabCounters(), to: later, aggregates: true).disagreements.count == 1)
    }

    @Test("leftovers of a dead process's lab differ from a living process's lab and from other namespaces")
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
