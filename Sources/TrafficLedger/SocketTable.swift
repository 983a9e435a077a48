import TrafficModel

/// The sockets that the ledger knows. A socket has one phase at a time, and only this table moves it on:
///
/// ```
/// open ───── end ─────> closed ───── age, limit ─────> late ───── age, limit ─────> forgotten
///  │ ^
///  │ └── seen again ──┬───────────────────┐
///  v                  │                   │
/// missing ──────> presumed ─ age, limit ─> unlisted ─ limit, or closed after all ─> forgotten
/// ```
///
/// Open, closed and presumed sockets are listed. ``accounts`` has those and the unlisted ones, ``late`` has the late ones,
/// and ``claims`` has what reports claim of any of them. A closed socket of which no report can come is forgotten at once.
///
/// Whoever takes a socket off the list gets its account, because the audits keep what it moved.
struct SocketTable: Sendable, Codable {
    /// Limits the unlisted sockets, of all users together. Beyond, the user with the most loses the oldest.
    static let unlistedLimit = 1_024

    private(set) var accounts: [UInt64: SocketAccount] = [:]
    /// The listed and the late sockets by cookie, which is how a report names a socket.
    var cookies = CookieIndex()
    /// Sockets that were observed since the last tick, or whose rates are not 0. Most of many sockets are idle, and cost
    /// a tick nothing.
    private(set) var moving: Set<UInt64> = []
    /// Sockets with bytes of calls that have not returned.
    private var pending: Set<UInt64> = []
    /// How many open sockets each process uses, also a process that is no longer listed.
    private(set) var openByProcess: [ProcessIdentity: Int] = [:]
    private var absences = Absences()
    /// Closed and presumed sockets, in the order in which they leave the list.
    private var closed = ClosedSockets()
    private var unlisted = FairQueue<UInt64>()
    var late = LateSockets()
    /// By serial. Not within the accounts, because a server has many sockets, and only some of them have claims.
    var claims: [UInt64: SocketClaims] = [:]
    var ranges = ClaimedRanges()

    subscript(serial: UInt64) -> SocketAccount? { self.accounts[serial] }

    var unlistedAccounts: some Sequence<SocketAccount> { self.unlisted.elements.lazy.compactMap { self.accounts[$0] } }

    /// Changes an account in place, except for its phase and what the socket's record says of the socket:
    /// ``absorb(_:isPresumed:)`` does that.
    ///
    /// - Returns: The result of `body`; `nil` if the socket is not known.
    @discardableResult
    mutating func change<Result>(_ serial: UInt64, _ body: (inout SocketAccount) -> Result) -> Result? {
        self.accounts.changeInPlace(serial, body)
    }

    mutating func renewClasses(_ classes: AddressClasses) {
        self.accounts.forEachInPlace { $0.renewClass(classes) }
    }

    // MARK: Observations

    /// A socket that the ledger has given up is listed again, and its account goes on.
    ///
    /// - Parameter isPresumed: The ledger made this last observation itself, of a socket that is missing.
    mutating func absorb(_ observation: SocketObservation, isPresumed: Bool = false) -> SocketAccount.Growth {
        let serial = observation.serial
        self.listLate(serial)
        // In place, because an account is large and this is the hot path of the daemon.
        let known = self.accounts.changeInPlace(serial) { account in
            let cookie = account.observation.cookie
            let payer = account.returnToList() ? account.observation.payer : nil
            let growth = account.absorb(observation, isPresumed: isPresumed)
            return (growth: growth, unlistedOf: payer, cookies: (before: cookie, now: account.observation.cookie))
        }
        var growth: SocketAccount.Growth
        if let known {
            growth = known.growth
            if let payer = known.unlistedOf {
                self.unlisted.remove(of: payer) { $0 == serial }
                self.cookies.add(known.cookies.now, of: serial)
                growth.isNewlyClosed = growth.wasClosed
            } else if known.cookies.before != known.cookies.now {
                self.cookies.remove(known.cookies.before, of: serial)
                self.cookies.add(known.cookies.now, of: serial)
            }
        } else {
            var account = SocketAccount(observation)
            growth = account.absorb(observation, isPresumed: isPresumed)
            self.cookies.add(account.observation.cookie, of: serial)
            self.accounts[serial] = account
        }
        if growth.isEnd { growth.isNewlyClosed = true }
        self.note(growth, of: serial)
        if observation.pendingSent ?? 0 > 0 { self.pending.insert(serial) }
        return growth
    }

    /// Takes the cumulative counters of a further owner.
    ///
    /// - Returns: `nil`: the socket is no longer listed, and the bytes of the owner have been counted.
    mutating func absorb(_ owner: OwnerObservation, of serial: UInt64) -> SocketAccount.Growth? {
        let growth = self.accounts.changeInPlace(serial) { $0.isListed ? $0.absorb(owner) : nil }
        guard let growth = growth ?? nil else { return nil }
        self.note(growth, of: serial)
        return growth
    }

    private mutating func note(_ growth: SocketAccount.Growth, of serial: UInt64) {
        self.moving.insert(serial)
        for process in growth.newOwners where !growth.wasClosed { self.openByProcess[process, default: 0] += 1 }
        if growth.isReopened { self.countOpen(serial, by: 1, except: growth.newOwners) }
        if growth.isEnd { self.countOpen(serial, by: -1) }
    }

    /// A socket closed, or is open after all.
    ///
    /// - Parameter newcomers: Processes that are counted elsewhere.
    private mutating func countOpen(_ serial: UInt64, by number: Int, except newcomers: [ProcessIdentity] = []) {
        guard let owners = self.accounts[serial]?.owners else { return }
        for owner in owners where !newcomers.contains(owner) {
            let open = self.openByProcess[owner, default: 0] + number
            self.openByProcess[owner] = open > 0 ? open : nil
        }
    }

    /// - Returns: Sockets that were missing so often that they must have closed.
    mutating func missing(in census: SocketCensus) -> ArraySlice<UInt64> {
        let missing = self.accounts.values.lazy.filter { account in
            let socket = account.observation
            return !account.isClosed && !census.serials.contains(socket.serial)
                && census.covers(socket.transport, in: socket.networkNamespace)
        }
        let serials = self.absences.note(missing.map(\.observation.serial))
        // A census of some sockets may miss a living one that has left the kernel's tables. So no more are presumed than
        // have room: beyond that, the bytes of one that comes back would count twice. The others stay listed.
        guard census.namespaces != nil else { return serials[...] }
        return serials.prefix(max(0, Self.unlistedLimit - self.accounts.values.count { $0.isPresumed }))
    }

    // MARK: Leaving the list

    /// A socket closed, and leaves the list in its turn.
    ///
    /// - Parameter isShared: Further owners of the socket are still to come.
    /// - Returns: Sockets that exceed the limits. They are forgotten, but for what reports may claim of them.
    mutating func close(_ serial: UInt64, isShared: Bool, within limit: UserLimit) -> [SocketAccount] {
        guard let payer = self.accounts[serial]?.observation.payer else { return [] }
        return self.unlist(self.closed.append(serial, of: payer, isShared: isShared, within: limit))
    }

    /// Takes closed sockets off the list that have been there since `moment` or longer, and those beyond the limits.
    ///
    /// - Returns: As for ``close(_:isShared:within:)``.
    mutating func unlistClosed(listedSince moment: UInt64, at tick: UInt64, within limit: UserLimit) -> [SocketAccount]
    {
        self.unlist(self.closed.takeForgettable(listedSince: moment, at: tick, within: limit))
    }

    private mutating func unlist(_ serials: [UInt64]) -> [SocketAccount] {
        var forgotten: [SocketAccount] = []
        for serial in serials {
            // Some are open, because they came back.
            guard let account = self.accounts[serial], account.isClosed, account.isListed else { continue }
            self.moving.remove(serial)
            self.cookies.remove(account.observation.cookie, of: serial)
            guard account.isPresumed else {
                self.accounts[serial] = nil
                forgotten.append(account)
                continue
            }
            self.accounts.changeInPlace(serial) { $0.unlist() }
            let limit = UserLimit(Self.unlistedLimit, inAll: Self.unlistedLimit)
            let surplus = self.unlisted.append(serial, of: account.observation.payer, within: limit, slack: 0)
            forgotten += surplus.compactMap { self.accounts.removeValue(forKey: $0) }
        }
        return forgotten
    }

    /// Takes out an unlisted socket, of which it is now known that it closed.
    mutating func takeUnlisted(_ serial: UInt64) -> SocketAccount? {
        guard let account = self.accounts[serial], !account.isListed else { return nil }
        self.unlisted.remove(of: account.observation.payer) { $0 == serial }
        self.accounts[serial] = nil
        return account
    }

    // MARK: Ticks and looks

    mutating func tick(seconds: Double) {
        let moving = self.moving
        for serial in moving where self.change(serial, { $0.tick(seconds: seconds) }) != true {
            self.moving.remove(serial)
        }
    }

    /// The open sockets with bytes of calls that have not returned.
    mutating func takePending() -> [SocketAccount] {
        var accounts: [SocketAccount] = []
        for serial in self.pending {
            guard let socket = self.accounts[serial], !socket.isClosed, socket.bytes.pendingSent > 0 else {
                self.pending.remove(serial)
                continue
            }
            accounts.append(socket)
        }
        return accounts
    }
}

extension SocketObservation {
    /// Who pays for what the ledger keeps of the socket.
    var payer: PayingUser { PayingUser(self.owners.first?.uid ?? self.uid ?? 0) }
}
