/// Changes of alerts for those who have not got them yet: in the daemon for followers, and in `trafficctl` for a server
/// that does not answer.
///
/// Whoever runs many programs sets off many changes, and must not push out those about others. So each rule has so many
/// places about each user. Where all places are taken, whoever has the most loses the oldest.
package struct AlertBacklog {
    private struct Key: Hashable {
        var rule: String
        var uid: UInt32?
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

    package init() {}

    package mutating func add(_ notice: AlertNotice) {
        let key = Key(rule: notice.alert?.rule ?? "", uid: notice.alert?.process?.uid)
        self.added += 1
        self.entries[key, default: []].append(Entry(order: self.added, notice: notice))
        self.count += 1
        if self.entries[key, default: []].count > Self.mostOfOne {
            self.removeFirst(of: key)
        } else if self.count > Self.most {
            // Of those with equally many, the one whose first is the oldest.
            let longest = self.entries.max { one, other in
                (one.value.count, other.value.first?.order ?? 0) < (other.value.count, one.value.first?.order ?? 0)
            }
            if let longest { self.removeFirst(of: longest.key) }
        }
    }

    /// Those that came after this number of their origin, in the order in which they came.
    package func notices(after number: UInt64) -> [AlertNotice] {
        self.entries.values.joined().filter { $0.notice.position.number > number }
            .sorted { $0.order < $1.order }.map(\.notice)
    }

    /// Takes out the oldest.
    package mutating func takeFirst() -> AlertNotice? {
        let oldest = self.entries.min { ($0.value.first?.order ?? 0) < ($1.value.first?.order ?? 0) }
        guard let oldest else { return nil }
        self.removeFirst(of: oldest.key)
        return oldest.value.first?.notice
    }

    private mutating func removeFirst(of key: Key) {
        self.entries[key]?.removeFirst()
        if self.entries[key]?.isEmpty == true { self.entries[key] = nil }
        self.count -= 1
    }

    /// For `doctor`, docs/security.md and its test.
    package static var limits: [DoctorReport.Limit] {
        [
            DoctorReport.Limit(
                of: "changes of alerts of a rule, kept for those who follow; in all, of all rules",
                user: self.mostOfOne,
                all: self.most,
                beyond: "the oldest go, of whoever has the most; followers are told how many"
            )
        ]
    }
}
