import CTrafficABI
import TrafficEvents
import TrafficModel

/// Reads what passed the interfaces: from the interfaces' own counters and, where packets are seen, from ours.
struct InterfaceReader: ~Copyable {
    /// The kernel's maps.
    private struct Counters {
        let interfaces: BPFMap
        let strangers: BPFMap
        let gracePeriod: GracePeriod
        var generations: InterfaceGenerations
    }

    /// The bit in the index that marks elements of the second of two generations, which take turns.
    private static let mark: UInt32 = 1 << 31

    /// `nil` where packets are not seen.
    private var counters: Counters?
    private let interfaces: NetworkInterfaces
    private let ends: InterfaceEnds
    private var presentMark: UInt32 = 0
    /// Whether the previous generation has not been taken yet.
    private var isRetiring = false

    /// - Parameters:
    ///   - packets: The map `interfaces`; `nil` where packets are not seen.
    ///   - strangers: The map `stranger_interfaces`.
    init(packets: BPFMap?, strangers: BPFMap?) throws(CaptureError) {
        let interfaces = NetworkInterfaces()
        let ends = try InterfaceEnds(networkNamespace: interfaces.networkNamespace)
        var counters: Counters?
        if let packets, let strangers {
            // Packets that find no room count in this element, so the element must exist before the first packet.
            try packets.insertZeros(
                traffic_interface_key(network_namespace: 0, index: 0),
                perCPU: MemoryLayout<traffic_interface>.size
            )
            counters = Counters(
                interfaces: packets,
                strangers: strangers,
                gracePeriod: try GracePeriod(),
                generations: InterfaceGenerations(
                    home: interfaces.networkNamespace,
                    threshold: Int(packets.capacity) / 4
                )
            )
        }
        (self.interfaces, self.ends, self.counters) = (interfaces, ends, counters)
    }

    /// Fills in the settings about interfaces.
    func fillIn(_ liveSettings: inout traffic_live_settings) {
        liveSettings.interface_mark = self.presentMark
        liveSettings.home_namespace = self.interfaces.networkNamespace ?? 0
        // A quarter of the map for each of two generations. The other half is for the daemon's network namespace.
        liveSettings.stranger_limit = (self.counters?.interfaces.capacity ?? 0) / 4
    }

    /// Reads the interfaces' counters between two equal readings of our own counters, so that both are of one moment.
    /// Under load that may not succeed: after some attempts the last reading is used as it is.
    ///
    /// - Parameter deadline: How long to wait for programs that may still add to the previous generation, in
    ///   nanoseconds of ``MonotonicClock``.
    /// - Returns: Whether the caller must write new settings.
    mutating func read(by deadline: UInt64, _ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Bool {
        // Before the list: what goes between the two is in the list, and comes with the next reading.
        let ends = Result { () throws(CaptureError) in try self.takeEnds(emit) }
        let hasNewSettings = try self.readPresent(by: deadline, emit)
        try ends.get()
        return hasNewSettings
    }

    private func takeEnds(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var gone: [InterfaceUsage] = []
        defer { if !gone.isEmpty { emit(.interfacesGone(gone)) } }
        try self.ends.take { gone.append($0) }
    }

    private mutating func readPresent(
        by deadline: UInt64,
        _ emit: (CaptureEvent) -> Void
    ) throws(CaptureError) -> Bool {
        guard var counters = self.counters else {
            emit(.interfaces(try self.interfaces.read()))
            return false
        }
        let retirement = Result { () throws(CaptureError) in
            // Some programs may still be running that found an element of the old generation before they knew of the
            // new one.
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
        // The error is thrown only here, because the counters could be read despite the error.
        try retirement.get()
        guard !self.isRetiring && packets.count >= counters.generations.threshold else { return false }
        self.presentMark ^= Self.mark
        self.isRetiring = true
        return true
    }

    /// Takes the counters of the previous generation and removes its elements.
    private mutating func retire(_ counters: inout Counters, present: Set<UInt32>) throws(CaptureError) {
        let oldMark = self.presentMark ^ Self.mark
        let map = counters.interfaces
        let isOld = { (key: traffic_interface_key) in key.network_namespace != 0 && key.index & Self.mark == oldMark }
        let old = try map.keys(as: traffic_interface_key.self).filter(isOld)
        let final = try Self.read(map, where: isOld)
        let current = try Self.read(map, where: { $0.network_namespace != 0 && !isOld($0) })
        try counters.strangers.set(oldMark >> 31, to: UInt64(0))
        // Nothing below can fail, so every removed element has been taken.
        counters.generations.retire(final, current: Set(current.map(\.key)), interfaces: present)
        for key in old { map.remove(key) }
        self.isRetiring = false
    }

    private static func read(
        _ map: BPFMap,
        where isWanted: (traffic_interface_key) -> Bool
    ) throws(CaptureError) -> [InterfacePackets] {
        var packets: [InterfacePackets] = []
        for var key in try map.keys(as: traffic_interface_key.self) where isWanted(key) {
            let values = try map.perCPUValues(of: key, as: traffic_interface.self)
            key.index &= ~Self.mark
            packets.append(InterfacePackets(key, values))
        }
        return packets
    }
}
