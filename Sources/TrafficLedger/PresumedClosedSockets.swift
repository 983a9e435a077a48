import TrafficModel

/// Sockets that were missing so often that they must have closed. They are no longer listed, but the kernel did not say
/// that they closed. If such a socket is seen again, its account goes on. Otherwise its bytes would count twice.
struct PresumedClosedSockets: Codable {
    /// For all users together. Beyond, the user with the most sockets loses the oldest.
    static let limit = 1_024

    private var bySerial: [UInt64: SocketAccount] = [:]
    private var queue = FairQueue<UInt64>()

    /// How many more have room.
    var room: Int { max(0, Self.limit - self.bySerial.count) }

    var accounts: some Collection<SocketAccount> { self.bySerial.values }

    mutating func take(_ serial: UInt64) -> SocketAccount? {
        guard let account = self.bySerial.removeValue(forKey: serial) else { return nil }
        self.queue.remove(of: account.observation.payer) { $0 == serial }
        return account
    }

    /// They are closed for good.
    mutating func takeAll() -> [SocketAccount] {
        defer { self = PresumedClosedSockets() }
        return Array(self.accounts)
    }

    mutating func renewClasses(_ classes: AddressClasses) {
        self.bySerial.forEachInPlace { $0.renewClass(classes) }
    }

    /// - Returns: Accounts if there are too many: of each user with the most, one. Their sockets are now closed for good.
    mutating func keep(_ account: SocketAccount) -> [SocketAccount] {
        let serial = account.observation.serial
        self.bySerial[serial] = account
        let limit = UserLimit(Self.limit, inAll: Self.limit)
        let surplus = self.queue.append(serial, of: account.observation.payer, within: limit, slack: 0)
        return surplus.compactMap { self.bySerial.removeValue(forKey: $0) }
    }
}

extension SocketObservation {
    /// Who pays for what the ledger keeps of the socket.
    var payer: PayingUser { PayingUser(self.owners.first?.uid ?? self.uid ?? 0) }
}
