import TrafficModel

/// The interfaces' own counters and their rates, and the packets that the capture saw pass.
struct InterfaceAccounts {
    private var current: [InterfaceUsage] = []
    private var atLastTick: [String: InterfaceUsage] = [:]
    private var packets: [Key: PacketAccount] = [:]

    private struct Key: Hashable {
        var networkNamespace: UInt32
        var index: UInt32
    }

    mutating func absorb(_ usages: [InterfaceUsage]) {
        self.current = usages
    }

    /// - Returns: By how much the packets of no socket grew, over all interfaces.
    mutating func absorb(_ packets: [InterfacePackets]) -> WireTotals {
        var grown = WireTotals()
        for interface in packets {
            let key = Key(networkNamespace: interface.networkNamespace, index: interface.index)
            grown += self.packets[key, default: PacketAccount()].absorb(interface)
        }
        return grown
    }

    mutating func tick(seconds: Double) {
        for index in self.current.indices {
            let now = self.current[index]
            // A counter that fell is a new interface of the same name: no rate until the next tick.
            guard seconds > 0, let before = self.atLastTick[now.name], before.sentBytes <= now.sentBytes,
                before.receivedBytes <= now.receivedBytes
            else { continue }
            self.current[index].sentBytesPerSecond = (Double(now.sentBytes - before.sentBytes) / seconds).rounded()
            self.current[index].receivedBytesPerSecond =
                (Double(now.receivedBytes - before.receivedBytes) / seconds).rounded()
        }
        self.atLastTick = Dictionary(self.current.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    var usages: [InterfaceUsage] { self.current }
}

/// The packets that passed one interface.
private struct PacketAccount {
    /// The last rounds' packets that had reached no socket: those that are no socket's, and those that were on their way to one.
    private var withoutSocket: [UInt64] = []
    private var credited = WireTotals()

    /// - Returns: By how much the packets of no socket grew.
    mutating func absorb(_ packets: InterfacePackets) -> WireTotals {
        let now = packets.ofNoSocket
        self.withoutSocket.append(now.received)
        if self.withoutSocket.count > 3 { self.withoutSocket.removeFirst() }
        // What is on its way is so for microseconds, not in three rounds in a row: the least is no socket's for good.
        let received = self.withoutSocket.count < 3 ? 0 : self.withoutSocket.min() ?? 0
        let grown = WireTotals(sent: now.sent, received: received).growth(since: self.credited)
        self.credited += grown
        return grown
    }
}
