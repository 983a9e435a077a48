import TrafficDocuments
import TrafficLimits
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

    var isOther: Bool { self.process.isOther }

    /// `nil` for bytes.
    var serviceEndpoint: ServiceEndpoint? {
        self.endpoint.map {
            ServiceEndpoint(process: self.process, role: $0.role, host: $0.host, route: $0.route)
        }
    }

    init(process: ProcessGroup) { self.process = process }

    init(_ endpoint: ServiceEndpoint) {
        self.process = endpoint.process
        self.endpoint = Endpoint(role: endpoint.role, host: endpoint.host, route: endpoint.route)
    }

    /// The one in which all of a user add up that are too many.
    func other(of uid: UInt32?) -> AlertSubject {
        var other = AlertSubject(process: .other(of: uid))
        other.endpoint = self.endpoint.map {
            Endpoint(role: $0.role, host: EndpointUsage.other, route: EndpointUsage.other)
        }
        return other
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
    /// Endpoints whose past this rule needs, of the last slot or the open one.
    private(set) var neededPasts: Set<ServiceEndpoint> = []

    private struct Meter {
        /// Of the slot that is not over.
        var open = SlotCounts()
        /// Of those that are, the oldest first; fewer than the rule's at first.
        var closed: [SlotCounts] = []
        var alert: Alert?
        /// For a rule about it.
        var past: EndpointPast?

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
        // It has no meters here.
        case .newDestination: break
        case .requestsEvery, .requestsGrowing, .requestsOverPast, .failures, .repeated:
            for (name, counts) in sample.endpoints { self.add(SlotCounts(counts), to: AlertSubject(name), userName) }
        }
        self.openSeconds += sample.seconds
        guard self.openSeconds >= self.shape.seconds - Self.toleranceSeconds else {
            guard case .requestsOverPast = self.rule.kind else { return [] }
            return sample.endpoints.keys.compactMap { self.judgeEarly($0, at: sample.takenAt) }
        }
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
        self.neededPasts = []
        for (subject, meter) in self.meters {
            var meter = meter
            Self.push(meter.open, to: &meter.closed, most: self.shape.count)
            meter.open = SlotCounts()
            if let change = self.judge(subject, &meter, at: time) { changes.append(change) }
            self.needPast(subject, meter, at: time)
            let isIdle = meter.alert == nil && meter.closed.allSatisfy { $0 == SlotCounts() }
            self.meters[subject] = isIdle ? nil : meter
            guard isIdle else { continue }
            if subject.isOther { self.others -= 1 } else { self.places.giveBack(of: subject.process.uid) }
        }
        return changes
    }

    private func judge(_ subject: AlertSubject, _ meter: inout Meter, at time: Timestamp) -> AlertChange? {
        let slots = self.slots(of: meter)
        guard let alert = meter.alert else {
            guard self.rule.kind.begins(slots, after: meter.past) else { return nil }
            var alert = self.alert(subject, slots, endingAt: time)
            alert.pastRequestsPerSecond = meter.past.map { Double($0.mostRequests) / 3_600 }
            meter.alert = alert
            return .began(alert)
        }
        guard self.rule.kind.goesOn(slots, after: meter.past) else {
            meter.alert = nil
            return .ended(alert)
        }
        meter.alert?.setRates(slots.suffix(self.shape.recent))
        return nil
    }

    // MARK: The past

    /// Takes what history says.
    ///
    /// - Parameter time: The present.
    mutating func take(_ pasts: [ServiceEndpoint: EndpointPast], at time: Timestamp) -> [AlertChange] {
        guard case .requestsOverPast = self.rule.kind else { return [] }
        return pasts.compactMap { endpoint, past in
            let subject = AlertSubject(endpoint)
            // Another rule may have asked. The past of an alert stays that of the time when it began.
            guard self.neededPasts.remove(endpoint) != nil, var meter = self.meters[subject] else { return nil }
            meter.past = past
            defer { self.meters[subject] = meter }
            return self.judge(subject, &meter, at: time)
        }
    }

    /// Judges an endpoint before the slot is over, because what it has by then may be enough.
    private mutating func judgeEarly(_ endpoint: ServiceEndpoint, at time: Timestamp) -> AlertChange? {
        let subject = AlertSubject(endpoint)
        guard var meter = self.meters[subject], meter.alert == nil else { return nil }
        self.needPast(subject, meter, at: time)
        guard let change = self.judge(subject, &meter, at: time) else { return nil }
        self.meters[subject] = meter
        return change
    }

    /// Notes the endpoint if the rule compares with the past, the endpoint may have an alert, and its past is not known or
    /// too old.
    private mutating func needPast(_ subject: AlertSubject, _ meter: Meter, at time: Timestamp) {
        guard case .requestsOverPast = self.rule.kind, !subject.isOther, let endpoint = subject.serviceEndpoint else {
            return
        }
        let requests = self.slots(of: meter).total(\.requests)
        guard meter.alert != nil || requests >= AlertRule.Kind.leastRequestsOfHour else { return }
        guard let past = meter.past else {
            self.neededPasts.insert(endpoint)
            return
        }
        // What an alert is about is not its past, until it has gone on for so long that it is nothing new any more.
        let from = meter.alert.map { $0.since.nanosecondsSinceEpoch +| EndpointPast.longestSeconds * 1_000_000_000 }
        if let from, time.nanosecondsSinceEpoch < from { return }
        let age = time.nanosecondsSinceEpoch -| past.until.nanosecondsSinceEpoch
        if age.magnitude > 7_200_000_000_000 { self.neededPasts.insert(endpoint) }
    }

    /// The last ones, the oldest first, with the open one if it has a length.
    private func slots(of meter: Meter) -> [Slot] {
        // Before its first slot, a meter had nothing.
        let missing = Array(repeating: SlotCounts(), count: self.lengths.count - meter.closed.count)
        let closed = zip(missing + meter.closed, self.lengths).map { Slot(counts: $0, seconds: $1) }
        guard self.openSeconds > 0 else { return closed }
        return closed.suffix(self.shape.count - 1) + [Slot(counts: meter.open, seconds: self.openSeconds)]
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
