import DequeModule
import TrafficModel

/// Sockets that were missing so often that they must have closed. They are no longer listed, but the kernel did not say
/// that they closed. If such a socket is seen again, its account goes on. Otherwise its bytes would count twice.
struct PresumedClosedSockets: Codable {
    private struct Kept: Codable {
        var account: SocketAccount
        var user: PayingUser
    }

    /// For all users together. Beyond, the user with the most sockets loses the oldest.
    static let limit = 1_024

    private var bySerial: [UInt64: Kept] = [:]
    /// By user, the oldest first.
    private var order: [PayingUser: Deque<UInt64>] = [:]

    /// How many more have room.
    var room: Int { max(0, Self.limit - self.bySerial.count) }

    var accounts: some Collection<SocketAccount> { self.bySerial.values.lazy.map(\.account) }

    mutating func take(_ serial: UInt64) -> SocketAccount? {
        guard let kept = self.bySerial.removeValue(forKey: serial) else { return nil }
        self.order[kept.user]?.removeAll { $0 == serial }
        if self.order[kept.user]?.isEmpty == true { self.order[kept.user] = nil }
        return kept.account
    }

    /// They are closed for good.
    mutating func takeAll() -> [SocketAccount] {
        defer { self = PresumedClosedSockets() }
        return Array(self.accounts)
    }

    mutating func renewClasses(_ classes: AddressClasses) {
        self.bySerial.forEachInPlace { $0.account.renewClass(classes) }
    }

    /// - Returns: An account if there are too many. Its socket is now closed for good.
    mutating func keep(_ account: SocketAccount) -> SocketAccount? {
        let (serial, user) = (account.observation.serial, account.observation.payer)
        self.bySerial[serial] = Kept(account: account, user: user)
        self.order[user, default: []].append(serial)
        guard self.bySerial.count > Self.limit,
            let most = self.order.max(by: { $0.value.count < $1.value.count })?.value.first
        else { return nil }
        return self.take(most)
    }
}

extension SocketObservation {
    /// Who pays for what the ledger keeps of the socket.
    var payer: PayingUser { PayingUser(self.owners.first?.uid ?? self.uid ?? 0) }
}
