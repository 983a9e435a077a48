public import TrafficLimits
import TrafficModel

extension History {
    /// For `doctor`, docs/security.md and its test.
    public static var limits: [StatedLimit] {
        func limit(_ of: String, _ most: UserLimit, _ excess: String) -> StatedLimit {
            StatedLimit(
                of: of,
                user: most.ofUser,
                all: most.inAll,
                beyond: "\(excess) add up in the user's row `_other`"
            )
        }
        let kinds: [(HistorySeries.Kind, String)] = [(.group, "groups of processes"), (.endpoint, "endpoints")]
        var limits: [StatedLimit] = []
        for (kind, name) in kinds {
            guard let most = kind.limits else { continue }
            let what = kind == .group ? "payload" : "bytes of messages"
            limits += [
                limit("\(name) in a minute of history", most.minute, "those with the least \(what)"),
                limit("\(name) in a month of history", most.month, "those that come later"),
            ]
        }
        // Whoever may make interfaces is no stranger.
        if let most = HistorySeries.Kind.interface.limits {
            for (time, most, excess) in [
                ("minute", most.minute, "those with the least bytes"), ("month", most.month, "those that come later"),
            ] {
                limits.append(
                    StatedLimit(
                        of: "interfaces in a \(time) of history",
                        all: most.inAll,
                        beyond: "\(excess) add up in the row `_other`"
                    )
                )
            }
        }
        limits.append(
            StatedLimit(
                of: "questions to history that wait; of root and the group together \(self.mostOfAdministrators)",
                user: self.mostQuestions.ofUser,
                all: self.mostQuestions.inAll,
                beyond: "turned down, with the status 503"
            )
        )
        return limits
    }
}
