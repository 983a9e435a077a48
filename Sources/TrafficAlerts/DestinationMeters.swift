import TrafficDocuments
import TrafficLimits
import TrafficModel
import TrafficQuery

/// The alerts of one rule about new destinations.
struct DestinationMeters {
    let rule: AlertRule
    private let learningSeconds: Double
    private var meters: [Contact: Meter] = [:]
    /// Of the meters that are no `_other`.
    private var places = GroupPlaces(AlertBook.limit)
    /// How many are.
    private var others = 0

    private struct Meter {
        var alert: Alert
        /// Since the alert began.
        var seconds: Double
        /// Until it ends.
        var rest = DestinationMeters.alertSeconds

        mutating func add(_ bytes: UInt64, seconds: Double) {
            self.alert.bytes +|= bytes
            self.seconds += seconds
            self.alert.bytesPerSecond = Double(self.alert.bytes) / max(self.seconds, 1e-3)
        }
    }

    /// A destination is new only once: so long somebody may see that it was.
    static let alertSeconds = 3_600.0

    /// - Returns: `nil` for a rule of another kind.
    init?(_ rule: AlertRule) {
        guard case .newDestination(let seconds) = rule.kind else { return nil }
        (self.rule, self.learningSeconds) = (rule, seconds)
    }

    var alerts: [Alert] { self.meters.values.map(\.alert) }

    func isAbout(_ process: ProcessGroup, userName: (UInt32) -> String?) -> Bool {
        self.rule.filter.admits(process, nil, userName: userName)
    }

    mutating func add(_ moved: ContactBook.Moved, seconds: Double) -> [AlertChange] {
        var changes: [AlertChange] = []
        for (contact, meter) in self.meters {
            var meter = meter
            meter.add(moved[contact] ?? 0, seconds: seconds)
            meter.rest -= seconds
            self.meters[contact] = meter.rest > 0 ? meter : nil
            guard meter.rest <= 0 else { continue }
            if contact.isOther { self.others -= 1 } else { self.places.giveBack(of: contact.process.uid) }
            changes.append(.ended(meter.alert))
        }
        return changes
    }

    /// Takes a contact that is new to history.
    ///
    /// - Parameter groupSince: The time of the group's first contact.
    mutating func take(_ contact: Contact, _ moved: ContactBook.Waiting, groupSince: Timestamp) -> AlertChange? {
        let learned = moved.seen.nanosecondsSinceEpoch -| groupSince.nanosecondsSinceEpoch
        guard Double(learned) >= self.learningSeconds * 1e9 else { return nil }
        let place = self.place(of: contact)
        let seconds = Double(moved.until.nanosecondsSinceEpoch -| moved.since.nanosecondsSinceEpoch) / 1e9
        if var meter = self.meters[place] {
            meter.add(moved.bytes, seconds: 0)
            meter.rest = Self.alertSeconds
            self.meters[place] = meter
            return nil
        }
        let alert = Alert(
            rule: self.rule.name,
            kind: .newDestination,
            match: self.rule.match,
            process: place.process,
            destination: place.destination,
            since: moved.since
        )
        var meter = Meter(alert: alert, seconds: seconds)
        meter.add(moved.bytes, seconds: 0)
        self.meters[place] = meter
        if place.isOther { self.others += 1 } else { self.places.take(for: place.process.uid) }
        return .began(meter.alert)
    }

    /// Where a new contact is said.
    private func place(of contact: Contact) -> Contact {
        let user = contact.process.uid
        if self.places.hasRoom(for: user) { return contact }
        let other = Contact.other(of: user)
        return self.meters[other] == nil && self.others >= AlertBook.mostOthers ? .other(of: nil) : other
    }
}

extension Contact {
    fileprivate static func other(of uid: UInt32?) -> Contact {
        Contact(process: .other(of: uid), destination: EndpointUsage.other)
    }

    fileprivate var isOther: Bool { self.destination == EndpointUsage.other }
}
