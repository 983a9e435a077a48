import Testing
import TrafficModel

@testable import GroundTruth

@Suite("wire bytes against the lab's counters")
struct WireComparisonTests {
    private static let near: UInt32 = 100
    private static let peer: UInt32 = 200
    private static let elsewhere: UInt32 = 300

    /// 1,000 bytes from the near side to the peer and 300 back, of which the kernels said 72 and 64.
    private let truth = Self.truth()

    private static func truth(isBridged: Bool = false) -> WireTruth {
        var later = LabCounters()
        later.atPeer = LabCounters.Arrivals(ip: 1000, discovery: 72, other: 0)
        later.atNear = LabCounters.Arrivals(ip: 300, discovery: 64, other: 0)
        later.veth.sentBytes = 1000 + 3 * 14
        later.veth.sentPackets = 3
        later.veth.receivedBytes = 300 + 2 * 14
        later.veth.receivedPackets = 2
        return WireTruth(from: LabCounters(), to: later, isBridged: isBridged)
    }

    private func row(
        _ pid: Int32,
        in namespace: UInt32?,
        sent: UInt64?,
        received: UInt64?,
        payload: UInt64 = 0
    ) -> ProcessUsage {
        ProcessUsage(
            identity: ProcessIdentity(pid: pid, startBoottimeNanoseconds: 1),
            details: ProcessDetails(name: pid == 0 ? "kernel" : "p\(pid)", uid: 0, networkNamespace: namespace),
            bytes: ByteCounts(payload: PayloadBytes(sent: payload), wireSent: sent, wireReceived: received)
        )
    }

    private func snapshot(_ rows: [ProcessUsage]) -> Snapshot {
        Snapshot(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            takenBoottimeNanoseconds: 0,
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            host: HostDescription(name: "", bootID: "", kernel: ""),
            daemon: DaemonDescription(version: "", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(rung: .tracepoint, hooks: [], blindSpots: []),
            processes: rows,
            totals: Totals()
        )
    }

    private func compare(
        _ later: [ProcessUsage],
        since earlier: [ProcessUsage] = [],
        truth: WireTruth? = nil,
        whereabouts: (ProcessIdentity) -> UInt32? = { _ in nil }
    ) -> WireComparison {
        WireComparison(
            truth: truth ?? self.truth,
            from: self.snapshot(earlier),
            to: self.snapshot(later),
            namespaces: [Self.near: .near, Self.peer: .peer],
            whereabouts: whereabouts
        )
    }

    /// Exactly what passed, with a kernel row for each namespace.
    private var rightRows: [ProcessUsage] {
        [
            self.row(10, in: Self.near, sent: 900, received: 200, payload: 5),
            self.row(11, in: Self.near, sent: 28, received: 36),
            self.row(0, in: Self.near, sent: 72, received: 64),
            self.row(20, in: Self.peer, sent: 236, received: 928),
            self.row(30, in: Self.elsewhere, sent: 5555, received: 5555),
        ]
    }

    /// Both kernel rows have one identity.
    private var rightRowsWithPeerKernel: [ProcessUsage] {
        self.rightRows + [self.row(0, in: Self.peer, sent: 64, received: 72)]
    }

    @Test("what adds up is no difference")
    func equal() {
        let comparison = self.compare(self.rightRowsWithPeerKernel)
        #expect(comparison.differences == [])
        #expect(comparison.difference == 0)
        #expect(comparison.bytes == 2600)
    }

    @Test("one byte too many or too few is seen, in either direction, at either side", arguments: 0..<5)
    func oneByte(index: Int) {
        for change in [-1, 1] {
            let rows = self.rightRowsWithPeerKernel
            guard rows[index].details.networkNamespace != Self.elsewhere else { continue }
            var wrong = rows
            wrong[index].bytes.wireSent = UInt64(Int(rows[index].bytes.wireSent ?? 0) + change)
            #expect(self.compare(wrong).difference == 1)
            #expect(self.compare(wrong).differences.count == 1)
            wrong = rows
            wrong[index].bytes.wireReceived = UInt64(Int(rows[index].bytes.wireReceived ?? 0) + change)
            #expect(self.compare(wrong).difference == 1)
        }
    }

    @Test("too much here and too little there do not cancel out")
    func noCancelling() {
        var wrong = self.rightRowsWithPeerKernel
        wrong[0].bytes.wireSent = 901
        wrong[3].bytes.wireSent = 235
        wrong[0].bytes.wireReceived = 198
        #expect(self.compare(wrong).difference == 4)
    }

    @Test("only what was added since the reading before counts")
    func growth() {
        let earlier = [
            self.row(10, in: Self.near, sent: 7000, received: 8000),
            self.row(0, in: Self.near, sent: 1, received: 2),
            self.row(0, in: Self.peer, sent: 10, received: 20),
        ]
        var later = self.rightRowsWithPeerKernel
        #expect(self.compare(later, since: earlier).difference == 7001 + 8002 + 10 + 20)
        later[0].bytes.wireSent = 7900
        later[0].bytes.wireReceived = 8200
        later[2].bytes.wireSent = 73
        later[2].bytes.wireReceived = 66
        later[5].bytes.wireSent = 74
        later[5].bytes.wireReceived = 92
        #expect(self.compare(later, since: earlier).difference == 0)
    }

    @Test("a daemon that reports no wire bytes is unknown, and not equal")
    func unknown() {
        let comparison = self.compare([self.row(10, in: Self.near, sent: nil, received: nil, payload: 5)])
        #expect(comparison.difference == nil)
        #expect(comparison.differences == [])
    }

    @Test("a process without wire bytes among others that have them is a difference")
    func partlyUnknown() {
        var rows = self.rightRowsWithPeerKernel
        rows.append(self.row(12, in: Self.near, sent: nil, received: nil, payload: 5))
        let comparison = self.compare(rows)
        #expect(comparison.difference == 0)
        #expect(comparison.differences.count == 1)
    }

    @Test("the generator's word on where a process was goes before the daemon's")
    func whereabouts() {
        var rows = self.rightRowsWithPeerKernel
        rows[0].details.networkNamespace = nil
        #expect(self.compare(rows).difference == 1100)
        #expect(self.compare(rows) { $0.pid == 10 ? Self.near : nil }.difference == 0)
        #expect(self.compare(rows) { $0.pid == 10 ? Self.elsewhere : nil }.difference == 1100)
    }

    @Test("one kernel row for all namespaces is compared with both sides together")
    func oneKernelRow() {
        var rows = self.rightRows
        rows[2] = self.row(0, in: nil, sent: 136, received: 136)
        #expect(self.compare(rows).difference == 0)
        rows[2].bytes.wireSent = 137
        #expect(self.compare(rows).difference == 1)
    }

    @Test("one kernel row can't be compared where a namespace in the middle forwards")
    func oneKernelRowBridged() {
        var rows = self.rightRows
        rows[2] = self.row(0, in: nil, sent: 136, received: 136)
        #expect(self.compare(rows, truth: Self.truth(isBridged: true)).difference == nil)
        #expect(self.compare(self.rightRowsWithPeerKernel, truth: Self.truth(isBridged: true)).difference == 0)
    }

    @Test("a counter that fell is a difference and no trap")
    func fell() {
        let earlier = [self.row(10, in: Self.near, sent: 1000, received: 200)]
        #expect(self.compare(self.rightRowsWithPeerKernel, since: earlier).difference == 1200)
    }
}
