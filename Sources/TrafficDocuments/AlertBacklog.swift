package import TrafficLimits
import TrafficModel

/// Changes of alerts for those who have not got them yet: in the daemon for followers, and in `trafficctl` for a server
/// that does not answer.
///
/// Whoever runs many programs sets off many changes, and must not push out those about others. So each rule has so many
/// places about each user. Where all places are taken, whoever has the most loses the oldest. And nobody waits behind the
/// changes of another.
package struct AlertBacklog {
    private struct Key: Hashable {
        var rule: String
        var user: PayingUser?
    }

    private struct Entry {
        /// In which order they came.
        var order: UInt64
        var notice: AlertNotice
    }

    /// Of a rule about a user.
    package static let mostOfOne = 50
    package static let most = 2_000

    /// None is empty. The oldest first.
    private var entries: [Key: [Entry]] = [:]
    package private(set) var count = 0
    private var added: UInt64 = 0
    /// When each user who has entries is to be served: after all with a lower number.
    private var turns: [PayingUser?: Int] = [:]
    private var lastTurn = 0
    /// Who had it. This user may have no entries any more.
    private var lastServed: PayingUser??
    /// Dropped changes that no entry says.
    private var untold: UInt64 = 0

    package init() {}

    package mutating func add(_ notice: AlertNotice) {
        let key = Key(rule: notice.alert?.rule ?? "", user: notice.alert?.process?.payer)
        self.added += 1
        // After all who wait for their turn, however often the user comes anew. Whoever had the last turn comes last.
        if self.turns[key.user] == nil {
            self.turns[key.user] = self.lastServed == .some(key.user) ? self.lastTurn : self.lastTurn - 1
        }
        self.entries[key, default: []].append(Entry(order: self.added, notice: notice))
        self.count += 1
        if self.entries[key, default: []].count > Self.mostOfOne {
            self.dropFirst(of: key)
        } else if self.count > Self.most {
            // Of those with equally many, the one whose first is the oldest.
            let longest = self.entries.max { one, other in
                (one.value.count, other.value.first?.order ?? 0) < (other.value.count, one.value.first?.order ?? 0)
            }
            if let longest { self.dropFirst(of: longest.key) }
        }
    }

    /// The lowest number of this origin.
    package func firstNumber(of origin: String) -> UInt64? {
        self.entries.values.lazy.joined().filter { $0.notice.position.origin == origin }.map(\.notice.position.number)
            .min()
    }

    /// A change that is not taken to the reader leaves these dropped changes behind: the next one says them.
    package mutating func carryOver(_ dropped: UInt64) { self.untold += dropped }

    /// Those that came after this number of their origin, in the order in which they came.
    package func notices(after number: UInt64) -> [AlertNotice] {
        self.entries.values.joined().filter { $0.notice.position.number > number }
            .sorted { $0.order < $1.order }.map(\.notice)
    }

    /// Takes out the oldest of a user, of one user after the other: nobody waits behind the many changes of another.
    package mutating func takeNext() -> AlertNotice? {
        let next = self.entries.min { one, other in
            (self.turns[one.key.user] ?? 0, one.value.first?.order ?? 0)
                < (self.turns[other.key.user] ?? 0, other.value.first?.order ?? 0)
        }
        guard let key = next?.key, var notice = self.removeFirst(of: key) else { return nil }
        (self.lastTurn, self.lastServed) = (self.lastTurn + 1, .some(key.user))
        if self.turns[key.user] != nil { self.turns[key.user] = self.lastTurn }
        notice.droppedBefore +|= self.untold
        self.untold = 0
        return notice
    }

    /// The next change of the same rule about the same user says how many it lacks.
    private mutating func dropFirst(of key: Key) {
        guard let dropped = self.removeFirst(of: key) else { return }
        if self.entries[key] == nil {
            self.untold +|= dropped.droppedBefore +| 1
        } else {
            self.entries[key]?[0].notice.droppedBefore +|= dropped.droppedBefore +| 1
        }
    }

    private mutating func removeFirst(of key: Key) -> AlertNotice? {
        let first = self.entries[key]?.removeFirst()
        if self.entries[key]?.isEmpty == true { self.entries[key] = nil }
        if !self.entries.keys.contains(where: { $0.user == key.user }) { self.turns[key.user] = nil }
        self.count -= 1
        return first?.notice
    }

    /// For `doctor`, docs/security.md and its test.
    package static var limits: [StatedLimit] {
        [
            StatedLimit(
                of: "changes of alerts of a rule, kept for those who follow; in all, of all rules",
                user: self.mostOfOne,
                all: self.most,
                beyond: "the oldest go, of whoever has the most; followers are told how many"
            )
        ]
    }
}
