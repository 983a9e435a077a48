public import TrafficDocuments
public import TrafficLimits
public import TrafficModel

/// All rules, what they have seen lately, and the alerts in force. It has no clock: time comes with the samples.
public struct AlertBook {
    /// Groups or endpoints that a rule judges by themselves. Beyond, those of a user add up in one, `_other`.
    static let limit = UserLimit(100, inAll: 1_000)
    /// Users who have an `_other`. Those of further users add up in one.
    static let mostOthers = 1_000

    public private(set) var rules: [AlertRule] = []
    private var meters: [RuleMeters] = []
    private var budgets: [BudgetMeter] = []
    private var destinations: [DestinationMeters] = []
    private var contacts = ContactBook()

    public init() {}

    /// The oldest first.
    public var alerts: [Alert] {
        (self.meters.flatMap(\.alerts) + self.budgets.compactMap(\.alert) + self.destinations.flatMap(\.alerts))
            .sorted { $0.order < $1.order }
    }

    /// A rule that stays as it is goes on with what it has seen.
    ///
    /// - Returns: The alerts that end because their rule is gone or another one.
    public mutating func configure(_ rules: [AlertRule]) -> [AlertChange] {
        let stay = Set(rules)
        let gone =
            self.meters.filter { !stay.contains($0.rule) }.flatMap(\.alerts)
            + self.budgets.filter { !stay.contains($0.rule) }.compactMap(\.alert)
            + self.destinations.filter { !stay.contains($0.rule) }.flatMap(\.alerts)
        let (meters, budgets, destinations) = (self.meters, self.budgets, self.destinations)
        self.meters = rules.compactMap { rule in meters.first { $0.rule == rule } ?? RuleMeters(rule) }
        self.budgets = rules.compactMap { rule in budgets.first { $0.rule == rule } ?? BudgetMeter(rule) }
        self.destinations = rules.compactMap { rule in
            destinations.first { $0.rule == rule } ?? DestinationMeters(rule)
        }
        if self.destinations.isEmpty { self.contacts = ContactBook() }
        self.rules = rules
        return gone.map { .ended($0) }
    }

    /// - Parameter userName: The name of a user; `nil` if it has none.
    public mutating func add(_ sample: AlertSample, userName: (UInt32) -> String?) -> [AlertChange] {
        var changes: [AlertChange] = []
        for index in self.meters.indices { changes += self.meters[index].add(sample, userName: userName) }
        guard !self.destinations.isEmpty else { return changes }
        let moved = sample.destinations
        for index in self.destinations.indices {
            changes += self.destinations[index].add(moved, seconds: sample.seconds)
        }
        let destinations = self.destinations
        self.contacts.add(moved, of: sample) { contact in
            destinations.contains { $0.isAbout(contact.process, userName: userName) }
        }
        return changes
    }

    /// Endpoints whose past is needed.
    public var neededPasts: Set<ServiceEndpoint> { Set(self.meters.flatMap(\.neededPasts)) }

    /// Takes what history says of endpoints. Who is gone meanwhile is left out.
    public mutating func take(_ pasts: [ServiceEndpoint: EndpointPast], at time: Timestamp) -> [AlertChange] {
        var changes: [AlertChange] = []
        for index in self.meters.indices { changes += self.meters[index].take(pasts, at: time) }
        return changes
    }

    /// What to ask history about. Until ``take(_:of:userName:)`` brings the answers, the same is asked again.
    public var question: [Contact] { self.contacts.question }

    /// Takes what history says of a contact.
    public mutating func take(
        _ answer: ContactAnswer,
        of contact: Contact,
        userName: (UInt32) -> String?
    ) -> [AlertChange] {
        guard let (moved, groupSince) = self.contacts.take(answer, of: contact) else { return [] }
        return self.destinations.indices.compactMap { index in
            guard self.destinations[index].isAbout(contact.process, userName: userName) else { return nil }
            return self.destinations[index].take(contact, moved, groupSince: groupSince)
        }
    }

    /// How many contacts were not judged since the last call, for want of room.
    public mutating func takeLost() -> UInt64 { self.contacts.takeLost() }

    /// Takes what history says of a rule. If the rule is gone meanwhile, nothing happens.
    public mutating func take(_ sum: BudgetSum, of rule: AlertRule) -> [AlertChange] {
        guard let index = self.budgets.firstIndex(where: { $0.rule == rule }) else { return [] }
        return self.budgets[index].take(sum)
    }

    /// For `doctor`, docs/security.md and its test.
    public static var limits: [StatedLimit] {
        [
            StatedLimit(
                of: "groups or endpoints that a rule of an alert judges",
                user: self.limit.ofUser,
                all: self.limit.inAll,
                beyond: "the rest adds up in `_other` of the user, and of users beyond all limits in one `_other`"
            )
        ] + Contact.limits
    }
}

extension Alert {
    fileprivate var order: (Timestamp, String, String, String, String) {
        (self.since, self.rule, self.process?.name ?? "", self.host ?? self.destination ?? "", self.route ?? "")
    }
}
