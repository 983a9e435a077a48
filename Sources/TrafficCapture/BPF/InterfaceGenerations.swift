import TrafficModel

/// Adds up the counters of the kernel's `interfaces` map over all its generations, including counters of interfaces
/// that are gone.
///
/// Containers come and go, and so do their interfaces, but the kernel does not tell a program when. So now and then the
/// daemon starts a new generation: packets then count in new elements of the map. When no program can add to the old
/// elements any more, the daemon takes and removes them. An interface that has counted in the new generation too keeps
/// its own row. So does every existing interface of the daemon's network namespace. All other interfaces share one row,
/// that of network namespace 0, which also has the packets that found no room in the map. No byte is lost. A user who
/// makes many interfaces costs other users at most their own rows.
///
/// Pure: no I/O.
struct InterfaceGenerations {
    struct Key: Hashable {
        var networkNamespace: UInt32
        var index: UInt32

        /// No namespace has this inode number.
        static let gone = Key(networkNamespace: 0, index: 0)
    }

    /// Inode number of the daemon's network namespace.
    let home: UInt32?
    /// A new generation begins when there are this many elements.
    private(set) var threshold: Int
    /// The sums of earlier generations.
    private var earlierSums: [Key: InterfacePackets] = [:]

    init(home: UInt32?, threshold: Int) {
        self.home = home
        self.threshold = threshold
    }

    /// - Parameters:
    ///   - old: The final counters of the elements of the previous generation.
    ///   - current: The interfaces that have counted in the present generation so far.
    ///   - interfaces: The indexes of the interfaces of the daemon's network namespace.
    mutating func retire(_ old: [InterfacePackets], current: Set<Key>, interfaces: Set<UInt32>) {
        for packets in old { self.add(packets, to: packets.key) }
        for (key, packets) in self.earlierSums where key != .gone && !current.contains(key) {
            if key.networkNamespace == self.home && interfaces.contains(key.index) { continue }
            self.earlierSums[key] = nil
            self.add(packets, to: .gone)
        }
        // If many interfaces are active, a new generation soon would free little.
        self.threshold = max(self.threshold, 2 * current.count)
    }

    /// - Parameter counters: All elements, of both generations and the element for packets without room.
    /// - Returns: Cumulative counters. The counts of an interface that is missing, or whose counters have fallen, are
    ///   in the row of network namespace 0.
    func totals(_ counters: [InterfacePackets]) -> [InterfacePackets] {
        var totals = self.earlierSums
        for packets in counters { totals[packets.key, default: InterfacePackets(packets.key)].add(packets) }
        return Array(totals.values)
    }

    private mutating func add(_ packets: InterfacePackets, to key: Key) {
        self.earlierSums[key, default: InterfacePackets(key)].add(packets)
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
