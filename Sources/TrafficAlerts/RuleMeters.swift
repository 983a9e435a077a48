import TrafficModel
import TrafficQuery

/// Whom a rule judges.
struct AlertSubject: Hashable {
    var process: ProcessGroup
    /// `nil` for bytes.
    var endpoint: Endpoint?

    struct Endpoint: Hashable {
        var role: EndpointRole
        var host: String
        var route: String
    }

    var isOther: Bool { self.process == .other(of: self.process.uid) }

    /// The one in which all of a user add up that are too many.
    func other(of uid: UInt32?) -> AlertSubject {
        AlertSubject(
            process: .other(of: uid),
            endpoint: self.endpoint.map {
                Endpoint(role: $0.role, host: EndpointUsage.other, route: EndpointUsage.other)
            }
        )
    }
}

/// The meters of one rule: one for each group or endpoint that the rule is about and that has moved lately.
struct RuleMeters {
    let rule: AlertRule
    private let shape: SlotShape
    private var meters: [AlertSubject: Meter] = [:]
    /// Of the meters that are no `_other`.
    private var places = GroupPlaces(AlertBook.limit)
    /// How many are.
    private var others = 0
    /// Lengths of the slots that are over, the oldest first; the same for all meters.
    private var lengths: [Double] = []
    private var openSeconds = 0.0

    private struct Meter {
        /// Of the slot that is not over.
        var open = SlotCounts()
        /// Of those that are, the oldest first; fewer than the rule's at first.
        var closed: [SlotCounts] = []
        var alert: Alert?

        mutating func add(_ counts: SlotCounts) {
            self.open += counts
            self.alert?.bytes +|= counts.bytes
        }
    }

    /// A sample comes at most so much too early for the end of a slot.
    private static let toleranceSeconds = 0.5

    /// - Returns: `nil` for a rule that history judges.
    init?(_ rule: AlertRule) {
        guard let shape = rule.kind.shape else { return nil }
        (self.rule, self.shape) = (rule, shape)
    }

    var alerts: [Alert] { self.meters.values.compactMap(\.alert) }

    mutating func add(_ sample: AlertSample, userName: (UInt32) -> String?) -> [AlertChange] {
        switch self.rule.kind {
        case .rate, .bytes:
            for (group, bytes) in sample.groups {
                self.add(SlotCounts(bytes: bytes), to: AlertSubject(process: group), userName)
            }
        case .requestsEvery, .requestsGrowing, .failures, .repeated:
            for (name, counts) in sample.endpoints {
                let endpoint = AlertSubject.Endpoint(role: name.role, host: name.host, route: name.route)
                self.add(SlotCounts(counts), to: AlertSubject(process: name.process, endpoint: endpoint), userName)
            }
        }
        self.openSeconds += sample.seconds
        guard self.openSeconds >= self.shape.seconds - Self.toleranceSeconds else { return [] }
        return self.closeSlot(at: sample.takenAt)
    }

    private mutating func add(_ counts: SlotCounts, to subject: AlertSubject, _ userName: (UInt32) -> String?) {
        // What the ledger itself adds up in `_other` has to pass the filter each time: the meter of this name has more.
        if !subject.isOther, self.meters[subject]?.add(counts) != nil { return }
        let endpoint = subject.endpoint.map { (host: $0.host, route: $0.route) }
        guard self.rule.filter.admits(subject.process, endpoint, userName: userName) else { return }
        let place = self.place(of: subject)
        if self.meters[place]?.add(counts) != nil { return }
        self.meters[place] = Meter(open: counts)
        if place.isOther { self.others += 1 } else { self.places.take(for: place.process.uid) }
    }

    /// Where a subject without a meter is counted.
    private func place(of subject: AlertSubject) -> AlertSubject {
        let user = subject.process.uid
        if !subject.isOther, self.places.hasRoom(for: user) { return subject }
        let other = subject.other(of: user)
        return self.meters[other] == nil && self.others >= AlertBook.mostOthers ? subject.other(of: nil) : other
    }

    private mutating func closeSlot(at time: Timestamp) -> [AlertChange] {
        Self.push(self.openSeconds, to: &self.lengths, most: self.shape.count)
        self.openSeconds = 0
        var changes: [AlertChange] = []
        for (subject, meter) in self.meters {
            var meter = meter
            Self.push(meter.open, to: &meter.closed, most: self.shape.count)
            meter.open = SlotCounts()
            if let change = self.judge(subject, &meter, at: time) { changes.append(change) }
            let isIdle = meter.alert == nil && meter.closed.allSatisfy { $0 == SlotCounts() }
            self.meters[subject] = isIdle ? nil : meter
            guard isIdle else { continue }
            if subject.isOther { self.others -= 1 } else { self.places.giveBack(of: subject.process.uid) }
        }
        return changes
    }

    private func judge(_ subject: AlertSubject, _ meter: inout Meter, at time: Timestamp) -> AlertChange? {
        // Before its first slot, a meter had nothing.
        let missing = Array(repeating: SlotCounts(), count: self.lengths.count - meter.closed.count)
        let slots = zip(missing + meter.closed, self.lengths).map { Slot(counts: $0, seconds: $1) }
        guard let alert = meter.alert else {
            guard self.rule.kind.begins(slots) else { return nil }
            let alert = self.alert(subject, slots, endingAt: time)
            meter.alert = alert
            return .began(alert)
        }
        guard self.rule.kind.goesOn(slots) else {
            meter.alert = nil
            return .ended(alert)
        }
        meter.alert?.setRates(slots.suffix(self.shape.recent))
        return nil
    }

    private func alert(_ subject: AlertSubject, _ slots: [Slot], endingAt time: Timestamp) -> Alert {
        var alert = Alert(
            rule: self.rule.name,
            kind: self.rule.kind.reported,
            match: self.rule.match,
            process: subject.process,
            role: subject.endpoint?.role,
            host: subject.endpoint?.host,
            route: subject.endpoint?.route,
            since: Timestamp(nanosecondsSinceEpoch: time.nanosecondsSinceEpoch -| Int64(slots.seconds * 1e9)),
            bytes: slots.total(\.bytes)
        )
        alert.setRates(slots.suffix(self.shape.recent))
        return alert
    }

    private static func push<Value>(_ value: Value, to values: inout [Value], most: Int) {
        values.append(value)
        if values.count > most { values.removeFirst() }
    }
}

extension Alert {
    fileprivate mutating func setRates(_ slots: ArraySlice<Slot>) {
        let seconds = max(slots.seconds, 1e-3)
        self.bytesPerSecond = Double(slots.total(\.bytes)) / seconds
        guard self.route != nil else { return }
        self.requestsPerSecond = Double(slots.total(\.requests)) / seconds
        let ended = Double(max(1, slots.total(\.ended)))
        if self.kind == .failures { self.failedShare = Double(slots.total(\.failures)) / ended }
        if self.kind == .repeated { self.repeatedShare = Double(slots.total(\.repeated)) / ended }
    }
}
