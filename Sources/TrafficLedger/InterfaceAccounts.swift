import TrafficModel

/// The interfaces' own counters and their rates, and the packets that the capture saw pass.
struct InterfaceAccounts: Codable {
    private struct Interface: Codable {
        var usage: InterfaceUsage
        /// See ``InterfaceUsage/evidence``, which no encoder writes.
        var evidence: InterfaceEvidence?
    }

    private var current: [Interface] = []
    private var atLastTick: [InterfaceUsage] = []
    private var packets: [Key: PacketAccount] = [:]
    private var audits: [Key: InterfaceAudit] = [:]
    private var sums = InterfaceSums()
    /// Whether the capture sees packets. An empty list of packets says so, too.
    private var seesPackets = false
    private var isFirstRound = true

    private struct Key: Hashable, Codable {
        var networkNamespace: UInt32
        var index: UInt32

        /// The row of all interfaces that are gone.
        static let gone = Key(networkNamespace: 0, index: 0)

        init(networkNamespace: UInt32, index: UInt32) {
            self.networkNamespace = networkNamespace
            self.index = index
        }

        init(_ packets: InterfacePackets) {
            self.init(networkNamespace: packets.networkNamespace, index: packets.index)
        }

        init?(_ usage: InterfaceUsage) {
            guard let networkNamespace = usage.networkNamespace, let index = usage.index else { return nil }
            self.init(networkNamespace: networkNamespace, index: index)
        }
    }

    mutating func absorb(_ usages: [InterfaceUsage]) {
        self.sums.absorb(usages)
        let before = Dictionary(self.current.map { ($0.usage.name, $0.usage) }) { first, _ in first }
        self.current = usages.map { Interface(usage: $0) }
        let present = Set(usages.compactMap(Key.init))
        self.audits = self.audits.filter { present.contains($0.key) }
        for index in usages.indices {
            let usage = usages[index]
            // The rates of the last tick stay until the next tick.
            self.current[index].usage.sentBytesPerSecond = before[usage.name]?.sentBytesPerSecond
            self.current[index].usage.receivedBytesPerSecond = before[usage.name]?.receivedBytesPerSecond
            guard self.seesPackets, let key = Key(usage) else { continue }
            let none = InterfacePackets(networkNamespace: key.networkNamespace, index: key.index)
            let seen = self.packets[key]?.packets ?? none
            // Counters that fell belong to a new interface, which has the same index.
            if self.audits[key]?.isBehind(usage) == true { self.audits[key] = nil }
            // An interface that was there when counting began has counted bytes before that. A later interface is as
            // old as its counters, and packets that the capture saw before belong to another interface.
            let start =
                self.isFirstRound
                ? InterfaceAudit(from: usage, seen)
                : InterfaceAudit(from: nil, self.packets[key]?.previous ?? none)
            self.current[index].evidence = self.audits[key, default: start].absorb(usage, seen)
        }
        if self.seesPackets { self.isFirstRound = false }
    }

    /// Adds the last counters of interfaces that are gone.
    mutating func absorbLast(_ usages: [InterfaceUsage]) { self.sums.absorbLast(usages) }

    /// What the interfaces have counted themselves since the count began.
    var totals: InterfaceTotals { self.sums.totals }

    var seriesSums: MetricsReading.Sums<String, InterfaceCounts> { self.sums.seriesSums }

    /// Every interface that packets passed, in every network namespace.
    var seen: [InterfacePackets] { self.packets.values.compactMap(\.packets) }

    /// - Returns: By how many wire bytes the packets of no socket grew, over all interfaces.
    mutating func absorb(_ packets: [InterfacePackets]) -> WireTotals {
        self.seesPackets = true
        let present = Dictionary(packets.map { (Key($0), $0) }) { first, _ in first }
        for (key, account) in self.packets where account.hasGone(present[key]) {
            // From now on, the row `gone` has the packets of this interface. Bytes that have been credited stay
            // credited.
            self.packets[.gone, default: PacketAccount()].inherit(account)
            self.packets[key] = nil
        }
        var grown = WireTotals()
        for (key, interface) in present {
            grown += self.packets[key, default: PacketAccount()].absorb(interface)
        }
        return grown
    }

    mutating func tick(seconds: Double) {
        let before = Dictionary(self.atLastTick.map { ($0.name, $0) }) { first, _ in first }
        for index in self.current.indices {
            let now = self.current[index].usage
            self.current[index].usage.sentBytesPerSecond = nil
            self.current[index].usage.receivedBytesPerSecond = nil
            // A counter that fell belongs to a new interface of the same name: no rate until the next tick.
            guard seconds > 0, let before = before[now.name], before.sentBytes <= now.sentBytes,
                before.receivedBytes <= now.receivedBytes
            else { continue }
            self.current[index].usage.sentBytesPerSecond =
                (Double(now.sentBytes - before.sentBytes) / seconds).rounded()
            self.current[index].usage.receivedBytesPerSecond =
                (Double(now.receivedBytes - before.receivedBytes) / seconds).rounded()
        }
        self.atLastTick = self.current.map(\.usage)
    }

    var usages: [InterfaceUsage] {
        self.current.map { interface in
            var usage = interface.usage
            usage.evidence = interface.evidence
            return usage
        }
    }
}

/// An interface's own counters compared with the packets that the capture saw.
private struct InterfaceAudit: Codable {
    private struct Counters: Codable {
        var bytes: UInt64
        var packets: UInt64
        var seen: InterfacePackets.Bytes

        init(_ bytes: UInt64?, _ packets: UInt64?, _ seen: InterfacePackets.Bytes) {
            (self.bytes, self.packets, self.seen) = (bytes ?? 0, packets ?? 0, seen)
        }
    }

    private var sentStart: Counters
    private var receivedStart: Counters
    private var sentDifferences: [Int64] = []
    private var receivedDifferences: [Int64] = []
    private var last: InterfaceUsage?

    /// - Parameter usage: The interface's own counters when counting began; `nil` if the interface is younger.
    init(from usage: InterfaceUsage?, _ seen: InterfacePackets) {
        self.sentStart = Counters(usage?.sentBytes, usage?.sentPackets, seen.sent)
        self.receivedStart = Counters(usage?.receivedBytes, usage?.receivedPackets, seen.received)
    }

    func isBehind(_ usage: InterfaceUsage) -> Bool {
        guard let last else { return false }
        return usage.sentBytes < last.sentBytes || usage.receivedBytes < last.receivedBytes
    }

    mutating func absorb(_ usage: InterfaceUsage, _ seen: InterfacePackets) -> InterfaceEvidence {
        self.last = usage
        let header = usage.linkHeaderLength ?? 0
        var sent = Self.growth(Counters(usage.sentBytes, usage.sentPackets, seen.sent), since: self.sentStart)
        var received = Self.growth(
            Counters(usage.receivedBytes, usage.receivedPackets, seen.received),
            since: self.receivedStart
        )
        sent.lasting = Self.lasting(sent.difference(linkHeader: header), &self.sentDifferences)
        received.lasting = Self.lasting(received.difference(linkHeader: header), &self.receivedDifferences)
        return InterfaceEvidence(sent: sent, received: received)
    }

    private static func growth(_ now: Counters, since start: Counters) -> InterfaceEvidence.Direction {
        InterfaceEvidence.Direction(
            counterBytes: now.bytes -| start.bytes,
            counterPackets: now.packets -| start.packets,
            seen: now.seen.growth(since: start.seen)
        )
    }

    /// While the counters are read, a packet is on its way for microseconds only. So the smallest difference of the
    /// last three rounds is lasting.
    private static func lasting(_ difference: Int64, _ differences: inout [Int64]) -> Int64 {
        differences.append(difference)
        if differences.count > 3 { differences.removeFirst() }
        return differences.min { $0.magnitude < $1.magnitude } ?? difference
    }
}

/// The packets that passed one interface.
private struct PacketAccount: Codable {
    private(set) var packets: InterfacePackets?
    /// The packets as they were one round before.
    private(set) var previous: InterfacePackets?
    /// The received wire bytes that reached no socket, in the last rounds: bytes of no socket, and bytes on their way
    /// to a socket.
    private var withoutSocket: [UInt64] = []
    private var credited = WireTotals()

    /// - Parameter now: `nil` if the capture no longer tells of the interface.
    func hasGone(_ now: InterfacePackets?) -> Bool {
        guard let now, let packets else { return self.packets != nil }
        return now.sent.ip < packets.sent.ip || now.received.ip < packets.received.ip
    }

    mutating func inherit(_ gone: PacketAccount) {
        self.credited += gone.credited
        // The last rounds of this row lack the packets that the gone interface had without a socket. So nothing is
        // credited until three rounds have them.
        self.withoutSocket = []
    }

    /// - Returns: By how much the packets of no socket grew.
    mutating func absorb(_ packets: InterfacePackets) -> WireTotals {
        self.previous = self.packets
        self.packets = packets
        let now = packets.ofNoSocket
        self.withoutSocket.append(now.received)
        if self.withoutSocket.count > 3 { self.withoutSocket.removeFirst() }
        // A packet is on its way for microseconds, and never in three rounds in a row. So the smallest number of three
        // rounds is no socket's for good.
        let received = self.withoutSocket.count < 3 ? 0 : self.withoutSocket.min() ?? 0
        let grown = WireTotals(sent: now.sent, received: received).growth(since: self.credited)
        self.credited += grown
        return grown
    }
}
