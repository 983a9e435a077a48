import CTrafficABI
import TrafficModel

/// What passed the interfaces: by their own counters and, where packets are seen, by ours.
struct InterfaceReader: ~Copyable {
    /// The kernel's maps.
    private struct Counters {
        let interfaces: BPFMap
        let strangers: BPFMap
        let gracePeriod: GracePeriod
        var generations: InterfaceGenerations
    }

    /// In the index of an element of the second of two generations that take turns.
    private static let mark: UInt32 = 1 << 31

    /// `nil` where packets are not seen.
    private var counters: Counters?
    private let interfaces = NetworkInterfaces()
    private var presentMark: UInt32 = 0
    /// Whether there is a generation before the present one that is yet to be taken.
    private var isRetiring = false

    /// - Parameters:
    ///   - packets: The map `interfaces`; `nil` where packets are not seen.
    ///   - strangers: The map `stranger_interfaces`.
    init(packets: BPFMap?, strangers: BPFMap?) throws(CaptureError) {
        guard let packets, let strangers else { return }
        // What finds no room counts there: it must be there before the first packet is.
        try packets.insertZeros(
            traffic_interface_key(network_namespace: 0, index: 0),
            perCPU: MemoryLayout<traffic_interface>.size
        )
        self.counters = Counters(
            interfaces: packets,
            strangers: strangers,
            gracePeriod: try GracePeriod(),
            generations: InterfaceGenerations(
                home: self.interfaces.networkNamespace,
                threshold: Int(packets.capacity) / 4
            )
        )
    }

    /// What the programs are told of it.
    func tell(_ told: inout traffic_told) {
        told.interface_mark = self.presentMark
        told.home_namespace = self.interfaces.networkNamespace ?? 0
        // Of each of two generations; the other half is for the daemon's network namespace.
        told.stranger_limit = (self.counters?.interfaces.capacity ?? 0) / 4
    }

    /// Reads the interfaces' counters between two readings of our own that are equal, so that both are of one moment. Under load that may not
    /// succeed: after some attempts the last reading is taken as it is.
    ///
    /// - Parameter deadline: How long to wait for programs that may still add to the generation before the present one, in nanoseconds of
    ///   ``MonotonicClock``.
    /// - Returns: Whether there is something new to tell the programs.
    mutating func read(by deadline: UInt64, _ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Bool {
        guard var counters = self.counters else {
            emit(.interfaces(try self.interfaces.read()))
            return false
        }
        let retirement = Result { () throws(CaptureError) in
            // Programs that found an element of the old generation before they were told of the new one may still be at work.
            guard self.isRetiring, try counters.gracePeriod.hasPassed(by: deadline) else { return }
            try self.retire(&counters, present: Set(try self.interfaces.read().compactMap(\.index)))
        }
        self.counters = counters
        var packets = try Self.read(counters.interfaces, where: { _ in true })
        for attempt in 1...20 {
            let interfaces = try self.interfaces.read()
            let before = packets
            packets = try Self.read(counters.interfaces, where: { _ in true })
            guard packets == before || attempt == 20 else { continue }
            emit(.packets(counters.generations.totals(packets)))
            emit(.interfaces(interfaces))
            break
        }
        // Not before: what passed is known all the same.
        try retirement.get()
        guard !self.isRetiring && packets.count >= counters.generations.threshold else { return false }
        self.presentMark ^= Self.mark
        self.isRetiring = true
        return true
    }

    /// Takes the generation before the present one.
    private mutating func retire(_ counters: inout Counters, present: Set<UInt32>) throws(CaptureError) {
        let oldMark = self.presentMark ^ Self.mark
        let map = counters.interfaces
        let isOld = { (key: traffic_interface_key) in key.network_namespace != 0 && key.index & Self.mark == oldMark }
        let old = map.keys(as: traffic_interface_key.self).filter(isOld)
        let final = try Self.read(map, where: isOld)
        let current = try Self.read(map, where: { $0.network_namespace != 0 && !isOld($0) })
        try counters.strangers.set(oldMark >> 31, to: UInt64(0))
        // From here on nothing fails: what is removed has been taken.
        counters.generations.retire(final, current: Set(current.map(\.key)), interfaces: present)
        for key in old { map.remove(key) }
        self.isRetiring = false
    }

    private static func read(
        _ map: BPFMap,
        where isWanted: (traffic_interface_key) -> Bool
    ) throws(CaptureError) -> [InterfacePackets] {
        var packets: [InterfacePackets] = []
        for var key in map.keys(as: traffic_interface_key.self) where isWanted(key) {
            let values = try map.perCPUValues(of: key, as: traffic_interface.self)
            key.index &= ~Self.mark
            packets.append(InterfacePackets(key, values))
        }
        return packets
    }
}
