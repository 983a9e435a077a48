package import TrafficDocuments
package import TrafficModel

/// The last changes of alerts, numbered, for those who follow.
package struct AlertJournal {
    private let host: String
    private var backlog = AlertBacklog()
    /// The last change.
    package private(set) var position: AlertPosition

    /// - Parameter origin: A number that no other run of a daemon has.
    package init(host: String, origin: UInt64) {
        (self.host, self.position) = (host, AlertPosition(origin: origin))
    }

    package mutating func add(_ changes: [AlertChange], at time: Timestamp) {
        for change in changes {
            self.position.number += 1
            self.backlog.add(AlertNotice(of: change, host: self.host, position: self.position, at: time))
        }
    }

    /// Where a stream begins, as its first line says.
    ///
    /// - Parameter position: Where the follower is. `nil`: it wants only what comes.
    package func beginning(after position: AlertPosition?, at time: Timestamp) -> AlertNotice {
        var start = self.position
        // Numbers of another run say nothing: its follower has none of these changes.
        if let position { start.number = position.origin == start.origin ? min(position.number, start.number) : 0 }
        return AlertNotice(host: self.host, position: start, at: time, change: .following)
    }

    /// The kept changes after this number. Each says how many are missing before it.
    package func notices(after number: UInt64) -> [AlertNotice] {
        var last = number
        return self.backlog.notices(after: number).map { notice in
            defer { last = notice.position.number }
            var notice = notice
            notice.droppedBefore = notice.position.number - last - 1
            return notice
        }
    }
}

extension AlertNotice {
    package init(of change: AlertChange, host: String, position: AlertPosition, at time: Timestamp) {
        self.init(host: host, position: position, at: time, change: change.word, alert: change.alert)
    }
}

extension AlertChange {
    fileprivate var word: AlertNotice.Change {
        switch self {
        case .began: .began
        case .rose: .nextStep
        case .ended: .ended
        }
    }
}
