import TrafficDocuments
public import TrafficLimits
import TrafficModel

/// Which changes the log has. A user with many endpoints must not fill it, and not push others' alerts out of it: each
/// rule has so many lines about each user in an hour.
public struct AlertLog {
    public enum Line: Sendable, Hashable {
        case change(AlertChange)
        /// Further changes of this rule about this user are not in the log before the hour ends.
        case silence(rule: String, user: PayingUser?)
        /// So many contacts were not judged, for want of room.
        case unjudged(UInt64)
    }

    private struct Key: Hashable {
        var rule: String
        var user: PayingUser?
    }

    package static let most = 20
    private static let hour = 3_600.0

    private var lines: [Key: Int] = [:]
    private var seconds = 0.0
    private var unjudged: UInt64 = 0
    private var hasSaidUnjudged = false

    public init() {}

    /// - Parameters:
    ///   - unjudged: Contacts since the last call that were not judged. One line an hour says how many.
    ///   - seconds: The time since the last call.
    public mutating func lines(_ changes: [AlertChange], unjudged: UInt64 = 0, seconds: Double) -> [Line] {
        self.seconds += seconds
        self.unjudged +|= unjudged
        if self.seconds >= Self.hour { (self.lines, self.seconds, self.hasSaidUnjudged) = ([:], 0, false) }
        var lines: [Line] = []
        if self.unjudged > 0, !self.hasSaidUnjudged {
            lines.append(.unjudged(self.unjudged))
            (self.unjudged, self.hasSaidUnjudged) = (0, true)
        }
        return lines
            + changes.compactMap { change in
                let key = Key(rule: change.alert.rule, user: change.alert.process?.payer)
                let count = self.lines[key, default: 0] + 1
                self.lines[key] = count
                if count <= Self.most { return .change(change) }
                return count == Self.most + 1 ? .silence(rule: key.rule, user: key.user) : nil
            }
    }
}
