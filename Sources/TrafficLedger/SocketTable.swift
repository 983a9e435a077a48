import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

/// The sockets that the ledger knows. A socket has one phase at a time, and only this table moves it on, as
/// `ARCHITECTURE.md` shows: open, ended or presumed (to have closed), then recoverable or late, then forgotten.
///
/// Open, ended and presumed sockets are listed. ``accounts`` has those and the recoverable ones: if the ledger sees such
/// a socket again, its account goes on, because its bytes would count twice otherwise. ``late`` has what reports are
/// checked against that come when the socket has left the list. An ended socket of which no report can come is forgotten
/// at once.
///
/// Whoever makes a socket leave gets its account, because the audits keep what it moved.
struct SocketTable: Sendable, Codable {
    typealias ClaimResult = (verdict: Coverage.Verdict, growth: PayloadBytes, wire: UInt64)

    /// Limits the recoverable sockets. Beyond, the user with the most loses the oldest.
    static let recoverableLimit = UserLimit(1_024, inAll: 4_096)

    private(set) var accounts: [UInt64: SocketAccount] = [:]
    /// The listed and the late sockets by cookie, which is how a report names a socket.
    private(set) var cookies = CookieIndex()
    /// Of all ``accounts``.
    private(set) var endsIndex = EndsIndex()
    /// Sockets that were observed since the last tick, or whose rates are not 0. Most of many sockets are idle, and
    /// cost a tick nothing.
    private(set) var moving: Set<UInt64> = []
    /// Sockets with bytes of calls that have not returned.
    private(set) var pending: Set<UInt64> = []
    /// How many open sockets each process uses, also a process that is no longer listed.
    private(set) var openByProcess: [ProcessIdentity: Int] = [:]
    /// Of open sockets that others hold than the first process that used them, or others too.
    private var held: [UInt64: Holders] = [:]
    private var absences = Absences()
    /// Ended and presumed sockets, in the order in which they leave the list.
    private var leaving = ClosedSockets()
    /// Recoverable sockets, in the order in which they are forgotten.
    private(set) var recoverable = FairQueue<UInt64>()
    private(set) var late = LateSockets()
    /// What reports claim of sockets, by serial. Claims stay as long as a report can name their socket, so that no byte
    /// is explained twice, and no longer. They are not within the accounts: a server has many sockets, and only some of
    /// them have claims.
    private(set) var claims: [UInt64: SocketClaims] = [:]
    private(set) var ranges = ClaimedRanges()

    subscript(serial: UInt64) -> SocketAccount? { self.accounts[serial] }

    var recoverableAccounts: [SocketAccount] { self.recoverable.elements.compactMap { self.accounts[$0] } }

    /// Changes an account in place. Its phase, and what records say of the socket, change elsewhere in this table.
    ///
    /// - Returns: The result of `body`; `nil` if the socket is not known.
    @discardableResult
    mutating func change<Result>(_ serial: UInt64, _ body: (inout SocketAccount) -> Result) -> Result? {
        self.accounts.changeInPlace(serial, body)
    }

    /// After a restore: ``endsIndex`` is made again, and a new list says who holds what.
    mutating func resume() {
        self.endsIndex = self.freshEndsIndex
        self.held = [:]
    }

    var freshEndsIndex: EndsIndex {
        self.accounts.values.reduce(into: EndsIndex()) {
            $0.replace(nil, with: $1.endsKey, in: $1.observation.networkNamespace)
        }
    }

    /// As ``SocketAccount/isUnused(over:)``, without a copy of the account.
    func isUnused(_ serial: UInt64, over ends: SocketEnds) -> Bool {
        self.accounts.index(forKey: serial).map { self.accounts.values[$0].isUnused(over: ends) } ?? false
    }

    mutating func renewClasses(_ classes: AddressClasses) {
        self.accounts.forEachInPlace { $0.renewClass(classes) }
    }

    // MARK: Observations

    /// A recoverable socket is listed again, and its account goes on. Any other that is not listed begins anew.
    ///
    /// - Parameter isPresumed: The ledger made this last observation itself, of a socket that is missing.
    mutating func absorb(_ observation: SocketObservation, isPresumed: Bool = false) -> SocketAccount.Growth {
        let serial = observation.serial
        self.removeLate(serial)
        // In place, because an account is large and this is the hot path of the daemon.
        let known = self.accounts.changeInPlace(serial) { account in
            let (cookie, ends) = (account.observation.cookie, account.endsKey)
            let payer = account.returnToList() ? account.observation.payer : nil
            let growth = account.absorb(observation, isPresumed: isPresumed)
            let cookies = (before: cookie, now: account.observation.cookie)
            return (growth: growth, returnsOf: payer, cookies: cookies, ends: (before: ends, now: account.endsKey))
        }
        var growth: SocketAccount.Growth
        if let known {
            growth = known.growth
            if known.ends.before != known.ends.now {
                self.endsIndex.replace(known.ends.before, with: known.ends.now, in: observation.networkNamespace)
            }
            if let payer = known.returnsOf {
                self.recoverable.remove(of: payer) { $0 == serial }
                self.cookies.add(known.cookies.now, of: serial)
            } else if known.cookies.before != known.cookies.now {
                self.cookies.remove(known.cookies.before, of: serial)
                self.cookies.add(known.cookies.now, of: serial)
            }
        } else {
            var account = SocketAccount(observation)
            growth = account.absorb(observation, isPresumed: isPresumed)
            self.cookies.add(account.observation.cookie, of: serial)
            self.endsIndex.replace(nil, with: account.endsKey, in: observation.networkNamespace)
            self.accounts[serial] = account
        }
        growth.mustLeave = growth.isEnd || known?.returnsOf != nil && growth.wasClosed
        self.note(growth, of: serial)
        if observation.pendingSent ?? 0 > 0 { self.pending.insert(serial) }
        return growth
    }

    private mutating func note(_ growth: SocketAccount.Growth, of serial: UInt64) {
        self.moving.insert(serial)
        for process in growth.newOwners where !growth.wasClosed { self.openByProcess[process, default: 0] += 1 }
        if growth.isReopened { self.countOpen(serial, by: 1, except: growth.newOwners) }
        if self.held[serial] != nil {
            for (owner, payload) in growth.owners where payload.total > 0 {
                self.held[serial]?.absent.remove(owner.identity)
                self.held[serial]?.former.remove(owner.identity)
            }
        }
        guard growth.isEnd else { return }
        self.countOpen(serial, by: -1)
        self.held[serial] = nil
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

    /// Notes which open sockets the census lacks.
    ///
    /// - Returns: Those that were missing so often that they must have closed, by serial.
    mutating func note(_ census: SocketCensus) -> [UInt64] {
        let lacking = self.accounts.values.lazy.filter { account in
            let socket = account.observation
            return !account.isClosed && !census.serials.contains(socket.serial)
                && census.covers(socket.transport, in: socket.networkNamespace)
        }
        let missing = self.absences.note(lacking.map(\.observation.serial))
        guard census.namespaces != nil else { return missing }
        // A census of some sockets may miss a living one that has left the kernel's tables. So of each user no more are
        // presumed than have room: beyond that, the bytes of one that comes back would count twice. The others stay
        // listed.
        var presumed: [PayingUser: Int] = [:]
        for account in self.accounts.values where account.isPresumed {
            presumed[account.observation.payer, default: 0] += 1
        }
        var room = Self.recoverableLimit.inAll - presumed.values.reduce(0, +)
        return missing.filter { serial in
            guard let payer = self.accounts[serial]?.observation.payer, room > 0,
                presumed[payer, default: 0] < Self.recoverableLimit.ofUser
            else { return false }
            presumed[payer, default: 0] += 1
            room -= 1
            return true
        }
    }

    // MARK: Holders

    /// What lists of holders say of an open socket.
    struct Holders: Codable {
        /// Holders that had not used the socket when the list came. One may have used it since, so readers look again.
        var others: [ProcessIdentity] = []
        /// Users without a descriptor in the last list, who have moved nothing since.
        var absent: Set<ProcessIdentity> = []
        /// Of those, the ones that were absent in the list before, too: a process may get its descriptor while a list is read.
        var former: Set<ProcessIdentity> = []
    }

    /// Takes the place of what was known of holders.
    ///
    /// - Returns: Those of known open sockets.
    mutating func hold(_ sockets: [SocketHolders]) -> [SocketHolders] {
        let known = sockets.filter { self.accounts[$0.serial]?.isClosed == false }
        let before = self.held
        self.held = known.reduce(into: [:]) { held, socket in
            guard let account = self.accounts[socket.serial] else { return }
            var holders = Holders()
            var listed = Set(socket.others.map(\.identity))
            holders.others = socket.others.lazy.map(\.identity).filter { !account.isOwned(by: $0) }
            if socket.isHeldByFirst, let first = account.observation.owners.first { listed.insert(first.identity) }
            if socket.isComplete { holders.absent = Set(account.owners).subtracting(listed) }
            holders.former = holders.absent.intersection(before[socket.serial]?.absent ?? [])
            held[socket.serial] = holders
        }
        return known
    }

    func holders(of serial: UInt64) -> Holders? { self.held[serial] }

    /// How many open sockets each process holds, as far as is known: who used a socket holds it, unless lists say that others
    /// hold it alone.
    var heldByProcess: [ProcessIdentity: Int] {
        var counts = self.openByProcess
        for (serial, holders) in self.held {
            guard let account = self.accounts[serial] else { continue }
            for holder in holders.others where !account.isOwned(by: holder) { counts[holder, default: 0] += 1 }
            for owner in holders.former { counts[owner, default: 0] -= 1 }
        }
        return counts
    }

    // MARK: Leaving the list

    /// A closed socket leaves the list in its turn.
    ///
    /// - Returns: Sockets that exceed the limits, without those that are recoverable.
    mutating func queue(_ serial: UInt64, of payer: PayingUser, within limit: UserLimit) -> [SocketAccount] {
        self.leaveList(self.leaving.append(serial, of: payer, within: limit))
    }

    /// Takes closed sockets off the list that have been there since `moment` or longer, and those beyond the limits.
    ///
    /// - Returns: These sockets, without those that are recoverable.
    mutating func takeClosed(listedSince moment: UInt64, at tick: UInt64, within limit: UserLimit) -> [SocketAccount] {
        self.leaveList(self.leaving.takeForgettable(listedSince: moment, at: tick, within: limit))
    }

    private mutating func leaveList(_ serials: [UInt64]) -> [SocketAccount] {
        var taken: [SocketAccount] = []
        for serial in serials {
            // Some are open, because they came back.
            guard let account = self.accounts[serial], account.isClosed, account.isListed else { continue }
            self.moving.remove(serial)
            self.cookies.remove(account.observation.cookie, of: serial)
            guard account.isPresumed else {
                taken.append(account)
                self.remove(account)
                continue
            }
            self.accounts.changeInPlace(serial) { $0.becomeRecoverable() }
            let payer = account.observation.payer
            let surplus = self.recoverable.append(serial, of: payer, within: Self.recoverableLimit, slack: 0)
            for account in surplus.compactMap({ self.accounts[$0] }) {
                taken.append(account)
                self.remove(account)
            }
        }
        return taken
    }

    private mutating func remove(_ account: SocketAccount) {
        self.accounts[account.observation.serial] = nil
        self.endsIndex.replace(account.endsKey, with: nil, in: account.observation.networkNamespace)
    }

    /// Takes out a recoverable socket, of which it is now known that it ended.
    mutating func takeRecoverable(_ serial: UInt64) -> SocketAccount? {
        guard let account = self.accounts[serial], !account.isListed else { return nil }
        self.recoverable.remove(of: account.observation.payer) { $0 == serial }
        self.remove(account)
        return account
    }

    // MARK: Ticks and looks

    mutating func tick(seconds: Double) {
        let moving = self.moving
        for serial in moving where self.change(serial, { $0.tick(seconds: seconds) }) != true {
            self.moving.remove(serial)
        }
    }

    /// The bytes of calls that have not returned, of each open socket with such calls.
    ///
    /// - Returns: `owner`: the process, if only one uses the socket. Of several nobody knows whose call it is.
    mutating func pendingBytes() -> [(bytes: UInt64, owner: ProcessIdentity?, destination: Destination?)] {
        var found: [(UInt64, ProcessIdentity?, Destination?)] = []
        self.pending = self.pending.filter { serial in
            guard let socket = self.accounts[serial], !socket.isClosed else { return false }
            let (bytes, owners) = (socket.bytes.pendingSent, socket.owners)
            if bytes > 0 { found.append((bytes, owners.count == 1 ? owners.first : nil, socket.destination)) }
            return bytes > 0
        }
        return found
    }

    // MARK: Claims

    /// - Returns: How many more bytes are explained than before.
    mutating func claim(
        _ connection: Report.Connection,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> PayloadBytes {
        let none = SocketClaims(of: socket, by: sender)
        return self.claims[socket.serial, default: none].claim(connection, of: socket.payload)
    }

    /// As ``SocketClaims/claim(_:isSent:of:wire:limit:)``.
    mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> ClaimResult {
        let none = SocketClaims(of: socket, by: sender)
        return Self.claim(
            interval,
            isSent: isSent,
            of: socket,
            &self.claims[socket.serial, default: none],
            &self.ranges
        )
    }

    private static func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        _ claims: inout SocketClaims,
        _ ranges: inout ClaimedRanges
    ) -> ClaimResult {
        let known = claims.rangeCount
        // The allowance is looked up only if the direction has so many ranges that it matters.
        let hasRoom = claims.isSmall(isSent: isSent) || ranges.hasRoom(for: claims)
        let result = claims.claim(
            interval,
            isSent: isSent,
            of: socket.payload,
            wire: socket.wireBytes,
            limit: hasRoom ? Coverage.mostRanges : Coverage.fewestRanges
        )
        if claims.rangeCount != known { ranges.add(claims.rangeCount - known, of: claims) }
        return result
    }

    // MARK: Late sockets

    /// Keeps what late reports of a socket are checked against. The socket has left the list.
    ///
    /// - Parameter user: Whose place the socket takes; `nil`: no report may come.
    mutating func keepLate(_ socket: SocketAccount, of user: PayingUser?, within limit: UserLimit) {
        let serial = socket.observation.serial
        guard let user, let late = LateSocket(socket, of: user), self.moveRanges(of: serial) else {
            return self.forgetClaims(of: serial)
        }
        self.cookies.add(late.cookie, of: serial)
        self.forgetLate(self.late.keep(late, within: limit))
    }

    /// - Returns: `false` if there is no room for them among those of late sockets.
    private mutating func moveRanges(of serial: UInt64) -> Bool {
        guard let index = self.claims.index(forKey: serial) else { return true }
        return self.ranges.leaveList(&self.claims.values[index])
    }

    /// A late socket was observed again, and is late no more.
    private mutating func removeLate(_ serial: UInt64) {
        guard let late = self.late.remove(serial) else { return }
        self.cookies.remove(late.cookie, of: serial)
        if let index = self.claims.index(forKey: serial) { self.ranges.returnToList(&self.claims.values[index]) }
    }

    /// Reports of late sockets that closed before `moment`, or exceed the limits, count no more.
    mutating func forgetLate(closedBefore moment: UInt64, within limit: UserLimit) {
        self.forgetLate(self.late.takeForgettable(closedBefore: moment, within: limit))
    }

    private mutating func forgetLate(_ sockets: [LateSocket]) {
        for late in sockets {
            self.cookies.remove(late.cookie, of: late.socket.serial)
            self.forgetClaims(of: late.socket.serial)
        }
    }

    private mutating func forgetClaims(of serial: UInt64) {
        guard let claims = self.claims.removeValue(forKey: serial) else { return }
        self.ranges.add(-claims.rangeCount, of: claims)
    }
}

extension SocketObservation {
    /// Who pays for what the ledger keeps of the socket: who used it first, or made it where the kernel used it first. As
    /// paying_user() in `bpf/payer.bpf.h`.
    var payer: PayingUser {
        let first = self.owners.first.flatMap { $0.isKernelThread ? nil : $0.uid }
        return PayingUser(first ?? self.uid ?? 0)
    }
}
