import TrafficModel

/// Adds up what the kernel's `interfaces` map has counted over its generations, and what of it is gone.
///
/// Containers come and go, and with them interfaces; the kernel tells no program when. So now and then user space has packets counted in new
/// elements of the map (a new generation), takes those of the old one, which nobody adds to any more, and removes them. An interface
/// that counted in the new generation too keeps a row of its own, and so does every one of the daemon's network namespace that is still there. All
/// others are one row, that of network namespace 0, together with those for which the map had no room. No byte is lost, and whoever
/// makes many interfaces costs nobody else more than a row.
///
/// Pure: no I/O.
struct InterfaceGenerations {
    struct Key: Hashable {
        var networkNamespace: UInt32
        var index: UInt32

        /// No namespace has this inode number.
        static let gone = Key(networkNamespace: 0, index: 0)
    }

    /// The daemon's network namespace.
    let home: UInt32?
    /// How many elements a generation may have before there is a new one.
    private(set) var threshold: Int
    /// What earlier generations counted.
    private var settled: [Key: InterfacePackets] = [:]

    init(home: UInt32?, threshold: Int) {
        self.home = home
        self.threshold = threshold
    }

    /// - Parameters:
    ///   - old: What the elements of the generation before counted in the end.
    ///   - current: Which interfaces count in the present one, so far.
    ///   - interfaces: The indexes of those of the daemon's network namespace.
    mutating func retire(_ old: [InterfacePackets], current: Set<Key>, interfaces: Set<UInt32>) {
        for packets in old { self.add(packets, to: packets.key) }
        for (key, packets) in self.settled where key != .gone && !current.contains(key) {
            if key.networkNamespace == self.home && interfaces.contains(key.index) { continue }
            self.settled[key] = nil
            self.add(packets, to: .gone)
        }
        // Where many are at work there is no use in doing this again soon.
        self.threshold = max(self.threshold, 2 * current.count)
    }

    /// - Parameter counters: All elements, of either generation and that of what found no room.
    /// - Returns: Cumulative. What is absent, or has fallen, has been added to the row of network namespace 0.
    func totals(_ counters: [InterfacePackets]) -> [InterfacePackets] {
        var totals = self.settled
        for packets in counters { totals[packets.key, default: InterfacePackets(packets.key)].add(packets) }
        return Array(totals.values)
    }

    private mutating func add(_ packets: InterfacePackets, to key: Key) {
        self.settled[key, default: InterfacePackets(key)].add(packets)
    }
}

extension InterfacePackets {
    var key: InterfaceGenerations.Key {
        InterfaceGenerations.Key(networkNamespace: self.networkNamespace, index: self.index)
    }

    init(_ key: InterfaceGenerations.Key) {
        self.init(networkNamespace: key.networkNamespace, index: key.index)
    }

    fileprivate mutating func add(_ other: InterfacePackets) {
        self.sent += other.sent
        self.received += other.received
    }
}
