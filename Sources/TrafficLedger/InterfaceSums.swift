import TrafficLimits
import TrafficModel

/// What the interfaces have counted themselves since the ledger's first look at them. Sums never fall.
///
/// An interface that was there at the first look has counted before, and that is in no sum. A later interface is as old as
/// its counters, so all that they have is in its sum. Counters that fall, because the driver set them back, add nothing,
/// and count from there on.
struct InterfaceSums: Codable {
    private struct Account: Codable {
        let number: UInt64
        var name: String
        /// What the interface said last.
        var last: InterfaceCounts
        var sum = InterfaceCounts()
        /// The last look that found it.
        var look: UInt64
    }

    /// The name of a series: that of the interface, or of all that a container engine names at random.
    private struct InterfaceName: Hashable, Codable {
        let text: String

        /// What names begin with, and how much that is random follows at least: of Docker and most CNI plugins, Docker's
        /// bridges, Calico, Cilium, libvirt, and the plugins of three clouds.
        private static let random = [
            ("veth", 1), ("br-", 12), ("cali", 1), ("lxc", 8), ("vnet", 1), ("eni", 8), ("azv", 8), ("gke", 8),
        ]

        init(_ name: String) {
            let prefix = Self.random.first { name.hasPrefix($0.0) && name.count >= $0.0.count + $0.1 }?.0
            self.text = prefix.map { $0 + "*" } ?? name.printable
        }
    }

    /// So many interfaces that are gone keep their sums, because the last minute of an interface belongs to history, too,
    /// and an interface may come back from a container. Of more, those that were gone first add up in ``ended``.
    static let mostGone = 256

    /// By index, of the present network namespace.
    private var accounts: [UInt32: Account] = [:]
    private var networkNamespace: UInt32?
    private var lives: UInt64 = 0
    private var looks: UInt64 = 0
    /// The first look has ended: an interface that comes now is as old as its counters.
    private var hasLooked = false
    private var ended = InterfaceCounts()
    private var series = SeriesNames<InterfaceName>(limit: SeriesLimits.interfaces)
    /// By the places of ``series``: what interfaces counted while they had the name.
    private var ofSeries: [InterfaceCounts] = []
    private var inOverflow = InterfaceCounts()

    /// - Parameter usages: All interfaces. One without an index is in no sum.
    mutating func absorb(_ usages: [InterfaceUsage]) {
        if let namespace = usages.first?.networkNamespace, namespace != self.networkNamespace {
            // The daemon moved to other interfaces.
            self.end(Array(self.accounts.keys))
            (self.networkNamespace, self.looks, self.hasLooked) = (namespace, 0, false)
        }
        self.looks += 1
        for usage in usages { self.absorb(usage) }
        self.hasLooked = true
        guard self.accounts.count > usages.count + Self.mostGone else { return }
        let gone = self.accounts.filter { $0.value.look < self.looks }
        let order = gone.sorted { ($0.value.look, $0.value.number) < ($1.value.look, $1.value.number) }
        self.end(order.dropLast(Self.mostGone).map(\.key))
    }

    /// Takes the last counters of interfaces that are gone. One that came and went between two looks has its account too.
    mutating func absorbLast(_ usages: [InterfaceUsage]) {
        // Before the first look nobody knows what they had counted by then.
        guard self.hasLooked else { return }
        for usage in usages where usage.networkNamespace == self.networkNamespace { self.absorb(usage) }
    }

    private mutating func absorb(_ usage: InterfaceUsage) {
        guard let index = usage.index else { return }
        let now = InterfaceCounts(usage)
        if self.accounts[index] == nil {
            self.lives += 1
            let start = self.hasLooked ? InterfaceCounts() : now
            self.accounts[index] = Account(number: self.lives, name: usage.name, last: start, look: self.looks)
        }
        let look = self.looks
        let growth = self.accounts.changeInPlace(index) { account in
            // All four are of one reading, so they fall together.
            let growth = now.isBehind(account.last) ? InterfaceCounts() : now.growth(since: account.last)
            account.sum += growth
            (account.last, account.name, account.look) = (now, usage.name, look)
            return growth
        }
        if let growth { self.add(growth, to: usage.name) }
    }

    private mutating func add(_ growth: InterfaceCounts, to name: String) {
        guard growth != InterfaceCounts() else { return }
        guard let place = self.series.place(of: InterfaceName(name)) else {
            self.inOverflow += growth
            return
        }
        if place == self.ofSeries.count { self.ofSeries.append(InterfaceCounts()) }
        self.ofSeries[place] += growth
    }

    /// By name, also of interfaces that are gone.
    var seriesSums: MetricsReading.Sums<String, InterfaceCounts> {
        MetricsReading.Sums(
            series: zip(self.series.names, self.ofSeries).map { .init(name: $0.text, value: $1) },
            overflow: self.inOverflow == InterfaceCounts() ? [:] : [.init(user: nil): self.inOverflow]
        )
    }

    private mutating func end(_ indexes: [UInt32]) {
        for index in indexes {
            if let account = self.accounts.removeValue(forKey: index) { self.ended += account.sum }
        }
    }

    var totals: InterfaceTotals {
        InterfaceTotals(
            lives: self.accounts.values.map { InterfaceLife(name: $0.name, number: $0.number, counts: $0.sum) }
                .sorted { $0.number < $1.number },
            endedLives: self.ended
        )
    }
}

extension InterfaceCounts {
    fileprivate func isBehind(_ earlier: InterfaceCounts) -> Bool {
        self.sentBytes < earlier.sentBytes || self.receivedBytes < earlier.receivedBytes
            || self.sentPackets < earlier.sentPackets || self.receivedPackets < earlier.receivedPackets
    }
}
