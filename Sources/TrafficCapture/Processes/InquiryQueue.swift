import TrafficEvents
import TrafficLimits
import TrafficModel

/// Processes that wait to be looked up. Each process is in the queue once, and users take turns, so no user's processes
/// delay those of another user.
struct InquiryQueue {
    static let limitPerUser = 4_096
    static let limit = 65_536

    /// First in, first out.
    private struct Line {
        var owners: [OwnerObservation] = []
        /// The place of the first of `owners`, counted from the beginning of the line.
        var first = 0
        var places: [ProcessIdentity: Int] = [:]
        var served = 0

        var count: Int { self.places.count }

        mutating func add(_ owner: OwnerObservation) {
            self.places[owner.identity] = self.first + self.owners.count
            self.owners.append(owner)
        }

        mutating func replace(_ owner: OwnerObservation) -> Bool {
            guard let place = self.places[owner.identity] else { return false }
            self.owners[place - self.first] = owner
            return true
        }

        mutating func takeFirst() -> OwnerObservation {
            let owner = self.owners[self.served]
            self.places[owner.identity] = nil
            self.served += 1
            if self.served > 1_024 && 2 * self.served > self.owners.count {
                self.owners.removeFirst(self.served)
                self.first += self.served
                self.served = 0
            }
            return owner
        }

        mutating func dropLast() {
            let owner = self.owners.removeLast()
            self.places[owner.identity] = nil
        }
    }

    private var lines: [PayingUser: Line] = [:]
    /// Users with processes in line, in the order of their turns.
    private var turns: [PayingUser] = []
    private(set) var count = 0

    init() {}

    var isEmpty: Bool { self.count == 0 }

    /// Adds a process. A second call for the same process replaces the first. If there is no room, the process is left
    /// out.
    mutating func add(_ owner: OwnerObservation) {
        let user = PayingUser(owner.uid)
        if self.lines[user]?.replace(owner) == true { return }
        guard self.lines[user, default: Line()].count < Self.limitPerUser else { return }
        if self.count >= Self.limit, !self.makeRoom(besides: user) { return }
        if self.lines[user] == nil { self.turns.append(user) }
        self.lines[user, default: Line()].add(owner)
        self.count += 1
    }

    /// Removes the last process of the user with most processes in line, if that user has more than `user`.
    private mutating func makeRoom(besides user: PayingUser) -> Bool {
        guard let longest = self.lines.max(by: { $0.value.count < $1.value.count }), longest.key != user,
            longest.value.count > (self.lines[user]?.count ?? 0) + 1
        else { return false }
        self.lines[longest.key]?.dropLast()
        self.count -= 1
        return true
    }

    /// Takes at most `limit` processes from the queue.
    mutating func take(_ limit: Int) -> [OwnerObservation] {
        var taken: [OwnerObservation] = []
        while taken.count < limit, !self.turns.isEmpty {
            for user in self.turns.prefix(limit - taken.count) {
                guard let owner = self.lines[user]?.takeFirst() else { continue }
                taken.append(owner)
                self.count -= 1
                if self.lines[user]?.count == 0 { self.lines[user] = nil }
            }
            // Users who were served go behind users who were not.
            let served = min(self.turns.count, limit)
            self.turns = (self.turns.dropFirst(served) + self.turns.prefix(served)).filter { self.lines[$0] != nil }
        }
        return taken
    }
}
