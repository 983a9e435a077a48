import DequeModule
import TrafficModel

/// Sockets that were missing so often that they must have closed. They are no longer listed, but the kernel did not say
/// that they closed. If such a socket is seen again, its account goes on. Otherwise its bytes would count twice.
struct PresumedClosedSockets {
    private static let limit = 1_024

    private var bySerial: [UInt64: SocketAccount] = [:]
    private var order: Deque<UInt64> = []

    var accounts: some Collection<SocketAccount> { self.bySerial.values }

    mutating func take(_ serial: UInt64) -> SocketAccount? {
        guard !self.bySerial.isEmpty, let account = self.bySerial.removeValue(forKey: serial) else { return nil }
        if let index = self.order.firstIndex(of: serial) { self.order.remove(at: index) }
        return account
    }

    /// - Returns: The oldest account if there are too many. Its socket is now closed for good.
    mutating func keep(_ account: SocketAccount) -> SocketAccount? {
        self.bySerial[account.observation.serial] = account
        self.order.append(account.observation.serial)
        guard self.order.count > Self.limit else { return nil }
        return self.bySerial.removeValue(forKey: self.order.removeFirst())
    }
}
