import TrafficModel

/// The sockets that the ledger lists, by serial, and their serials by cookie. One place changes both.
struct SocketTable: Sendable, Codable {
    private(set) var accounts: [UInt64: SocketAccount] = [:]
    private(set) var cookies = CookieIndex()

    subscript(serial: UInt64) -> SocketAccount? { self.accounts[serial] }

    /// The listed socket that a report may name by this cookie.
    subscript(cookie: SocketCookie) -> SocketAccount? { self.cookies[cookie].flatMap { self.accounts[$0] } }

    /// Changes an account in place, except for what the socket's record says of the socket: ``absorb(_:after:)`` does
    /// that.
    ///
    /// - Returns: The result of `body`; `nil` if the socket is not listed.
    @discardableResult
    mutating func change<Result>(_ serial: UInt64, _ body: (inout SocketAccount) -> Result) -> Result? {
        self.accounts.changeInPlace(serial, body)
    }

    mutating func renewClasses(_ classes: AddressClasses) {
        self.accounts.forEachInPlace { $0.renewClass(classes) }
    }

    /// - Parameter presumed: The socket's account, if the socket was presumed closed and had left the list.
    mutating func absorb(_ observation: SocketObservation, after presumed: SocketAccount?) -> SocketAccount.Growth {
        let serial = observation.serial
        // In place, because an account is large and this is the hot path of the daemon.
        let known = self.accounts.changeInPlace(serial) { account in
            let cookie = account.observation.cookie
            return (growth: account.absorb(observation), before: cookie, now: account.observation.cookie)
        }
        if let (growth, before, now) = known {
            guard before != now else { return growth }
            self.cookies.remove(before, of: serial)
            self.cookies.add(now, of: serial)
            return growth
        }
        var account = presumed ?? SocketAccount(observation)
        let growth = account.absorb(observation)
        self.cookies.add(account.observation.cookie, of: serial)
        self.accounts[serial] = account
        return growth
    }

    /// Takes a closed socket off the list.
    ///
    /// - Returns: `nil`: the socket is open, because it came back, or is not listed.
    mutating func removeClosed(_ serial: UInt64) -> SocketAccount? {
        guard let account = self.accounts[serial], account.isClosed else { return nil }
        self.accounts[serial] = nil
        self.cookies.remove(account.observation.cookie, of: serial)
        return account
    }
}
