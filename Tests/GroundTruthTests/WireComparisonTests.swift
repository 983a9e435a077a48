import Testing
import TrafficModel

@testable import GroundTruth

@Suite("wire bytes against the lab's counters")
struct WireComparisonTests {
    private static let near: UInt32 = 100
    private static let peer: UInt32 = 200

    /// 1,000 bytes from the near side to the peer, 72 of them from the kernel; 300 bytes back, 64 of them from the
    /// kernel; 50 bytes over loopback.
    private static func truth() -> WireTruth {
        var later = LabCounters()
        later.atPeer = LabCounters.Arrivals(ip: 1000, discovery: 72, other: 28)
        later.atNear = LabCounters.Arrivals(ip: 300, discovery: 64, other: 0)
        later.veth.sentBytes = 1028 + 4 * 14
        later.veth.sentPackets = 4
        later.veth.receivedBytes = 300 + 2 * 14
        later.veth.receivedPackets = 2
        later.loopback.sentBytes = 50
        later.loopback.receivedBytes = 50
        return WireTruth(from: LabCounters(), to: later)
    }

    /// What a daemon that counts correctly reports of that traffic.
    private static func audit() -> WireAudit {
        var audit = WireAudit()
        audit.link.sent = [
            .wire: 928, .noSocket: 72, .interfaceWire: 1000, .otherProtocols: 28, .linkHeaders: 56,
            .interfaceCounter: 1084,
        ]
        audit.link.received = [
            .wire: 236, .noSocket: 64, .interfaceWire: 300, .linkHeaders: 28, .interfaceCounter: 328,
        ]
        audit.loopback.sent = [.wire: 50, .interfaceWire: 50, .interfaceCounter: 50]
        audit.loopback.received = audit.loopback.sent
        return audit
    }

    private static let rows = [
        row(10, in: near, sent: 950, received: 250, payload: 5),
        row(11, in: near, sent: 28, received: 36),
        row(20, in: peer, sent: 236, received: 928),
        row(0, in: nil, sent: 5555, received: 5555),
    ]

    private static func row(
        _ pid: Int32,
        in namespace: UInt32?,
        sent: UInt64?,
        received: UInt64?,
        payload: UInt64 = 0
    ) -> ProcessUsage {
        ProcessUsage(
            identity: ProcessIdentity(pid: pid, startBoottimeNanoseconds: 1),
            details: ProcessDetails(name: "p\(pid)", uid: 0, networkNamespace: namespace),
            bytes: ByteCounts(payload: PayloadBytes(sent: payload), wireSent: sent, wireReceived: received)
        )
    }

    private func reading(_ rows: [ProcessUsage], _ audit: WireAudit) -> WireComparison.Reading {
        let snapshot = Snapshot(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            takenBoottimeNanoseconds: 0,
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            host: HostDescription(name: "", bootID: "", kernel: ""),
            daemon: DaemonDescription(version: "", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: []),
            processes: rows,
            totals: Totals()
        )
        return WireComparison.Reading(snapshot: snapshot, audit: audit)
    }

    private func compare(
        _ rows: [ProcessUsage] = rows,
        _ audit: WireAudit = audit(),
        since earlier: (rows: [ProcessUsage], audit: WireAudit) = ([], WireAudit()),
        truth: WireTruth = truth(),
        acrossLink: Bool = false,
        copied: UInt64 = 0,
        ownersAreKnown: Bool = true,
        whereabouts: (ProcessIdentity) -> UInt32? = { _ in nil }
    ) -> WireComparison {
        WireComparison(
            truth: truth,
            from: self.reading(earlier.rows, earlier.audit),
            to: self.reading(rows, audit),
            near: Self.near,
            acrossLink: acrossLink,
            copied: copied,
            ownersAreKnown: ownersAreKnown,
            whereabouts: whereabouts
        )
    }

    @Test("matching sums are no difference; the peer's side and the machine's kernel row do not count")
    func equal() {
        let comparison = self.compare()
        #expect(comparison.differences == [])
        #expect(comparison.difference == 0)
        #expect(comparison.bytes == 1400)
    }

    @Test("one byte too many or too few on an interface's line is a difference, in either direction")
    func oneByte() {
        let directions: [WritableKeyPath<WireAudit, WireAudit.Lines>] = [
            \.link.sent, \.link.received, \.loopback.sent, \.loopback.received,
        ]
        for direction in directions {
            for line in [AuditLine.wire, .interfaceWire, .unexplainedAtInterface] {
                for change in [-1, 1] as [Int64] {
                    var audit = Self.audit()
                    audit[keyPath: direction][line, default: 0] += change
                    #expect(self.compare(Self.rows, audit).difference == 1, "\(direction) \(line)")
                    #expect(!self.compare(Self.rows, audit).differences.isEmpty)
                }
            }
        }
        var audit = Self.audit()
        audit.link.sent[.interfaceCounter] = 1083
        #expect(self.compare(Self.rows, audit).difference == 1)
    }

    @Test("one byte too many or too few of a process is a difference", arguments: 0..<2)
    func oneByteOfAProcess(index: Int) {
        for change in [-1, 1] {
            var rows = Self.rows
            rows[index].bytes.wireSent = UInt64(Int(rows[index].bytes.wireSent ?? 0) + change)
            #expect(self.compare(rows).difference == 1)
            rows = Self.rows
            rows[index].bytes.wireReceived = UInt64(Int(rows[index].bytes.wireReceived ?? 0) + change)
            #expect(self.compare(rows).difference == 1)
        }
    }

    @Test("too many bytes on one line and too few on another do not cancel out")
    func noCancelling() {
        var audit = Self.audit()
        audit.link.sent[.interfaceWire] = 1001
        audit.link.received[.interfaceWire] = 299
        audit.loopback.sent[.interfaceWire] = 48
        #expect(self.compare(Self.rows, audit).difference == 4)
    }

    @Test("only bytes since the last reading count")
    func growth() {
        var earlier = WireAudit()
        earlier.link.sent = [.wire: 7000, .interfaceWire: 7000, .interfaceCounter: 7014]
        var later = Self.audit()
        for (line, bytes) in earlier.link.sent { later.link.sent[line, default: 0] += bytes }
        let before = [Self.row(10, in: Self.near, sent: 7000, received: 0)]
        var rows = Self.rows
        #expect(self.compare(rows, later, since: (before, earlier)).difference == 7000)
        rows[0].bytes.wireSent = 7950
        #expect(self.compare(rows, later, since: (before, earlier)).differences == [])
        #expect(self.compare(rows, later).difference != 0)
    }

    @Test("bytes unexplained before the first scenario count for the first scenario alone")
    func unexplained() {
        var earlier = WireAudit()
        earlier.link.sent[.unexplainedAtInterface] = 52
        var later = Self.audit()
        later.link.sent[.unexplainedAtInterface] = 52
        #expect(self.compare(Self.rows, later, since: ([], earlier.withoutUnexplained)).difference == 52)
        #expect(self.compare(Self.rows, later, since: ([], earlier)).difference == 0)
    }

    @Test("with offloads the interface counts fewer headers than the link, as the audit's offload line says")
    func offloads() {
        var truth = Self.truth()
        truth.atInterface.sent -= 104
        truth.counter.sent -= 104
        var audit = Self.audit()
        audit.link.sent[.interfaceCounter] = 1084 - 104
        #expect(self.compare(Self.rows, audit, truth: truth).difference == 104)
        audit.link.sent[.offload] = -104
        #expect(self.compare(Self.rows, audit, truth: truth).differences == [])
    }

    @Test("without wire bytes from the daemon the difference is unknown, not 0")
    func unknown() {
        let rows = [Self.row(10, in: Self.near, sent: nil, received: nil, payload: 5)]
        #expect(self.compare(rows, WireAudit()).difference == nil)
        #expect(self.compare(rows, WireAudit()).differences == [])
    }

    @Test("a process without wire bytes among others that have them is a difference")
    func partlyUnknown() {
        let comparison = self.compare(Self.rows + [Self.row(12, in: Self.near, sent: nil, received: nil, payload: 5)])
        #expect(comparison.difference == 0)
        #expect(comparison.differences.count == 1)
    }

    @Test("payload over the link without packets is a difference, though the sums match")
    func payloadWithoutPackets() {
        var audit = Self.audit()
        (audit.link.sent[.wire], audit.link.sent[.noSocket]) = (0, 1000)
        (audit.loopback.sent[.wire], audit.loopback.sent[.noSocket]) = (0, 50)
        var rows = Self.rows
        for index in rows.indices where rows[index].details.networkNamespace == Self.near {
            rows[index].bytes.wireSent = 0
        }
        rows[2].bytes.payload.received = 5
        let whereabouts = { (process: ProcessIdentity) in
            process.pid == 10 ? Self.near : process.pid == 20 ? Self.peer : nil
        }
        #expect(self.compare(rows, audit, whereabouts: whereabouts).differences == [])
        let comparison = self.compare(rows, audit, acrossLink: true, whereabouts: whereabouts)
        #expect(comparison.differences.map(\.actual) == ["0"])
        #expect(self.compare(acrossLink: true, whereabouts: whereabouts).differences == [])
    }

    @Test("processes whose packets have fewer bytes than arrived on the other side are a difference")
    func arrivedWithoutPackets() {
        let whereabouts = { (process: ProcessIdentity) in
            process.pid == 10 ? Self.near : process.pid == 20 ? Self.peer : nil
        }
        var rows = Self.rows
        // The near processes sent 978 bytes in packets.
        for (arrived, differences) in [(UInt64(978), 0), (979, 1)] {
            rows[2].bytes.payload.received = arrived
            let comparison = self.compare(rows, acrossLink: true, whereabouts: whereabouts)
            #expect(comparison.differences.count == differences)
            let copied = self.compare(rows, acrossLink: true, copied: arrived - 978, whereabouts: whereabouts)
            #expect(copied.differences == [])
            #expect(self.compare(rows, whereabouts: whereabouts).differences == [])
        }
    }

    @Test("where the packets' owners are unknown, only the link's own numbers are compared")
    func unknownOwners() {
        #expect(self.compare([Self.rows[1]]).difference != 0)
        #expect(self.compare([Self.rows[1]], ownersAreKnown: false).difference == 0)
        #expect(self.compare(Self.rows, WireAudit(), ownersAreKnown: false).difference != 0)
    }

    @Test("the generator's network namespace for a process takes precedence over the daemon's")
    func whereabouts() {
        var rows = Self.rows
        rows[0].details.networkNamespace = nil
        #expect(self.compare(rows).difference == 1200)
        #expect(self.compare(rows) { $0.pid == 10 ? Self.near : nil }.difference == 0)
        #expect(self.compare(rows) { $0.pid == 10 ? Self.peer : nil }.difference == 1200)
    }

    @Test("a counter that fell is a difference and does not trap")
    func fell() {
        let before = [Self.row(10, in: Self.near, sent: 1000, received: 250)]
        #expect(self.compare(since: (before, WireAudit())).difference == 1250)
    }
}
