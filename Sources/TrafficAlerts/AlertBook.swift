public import TrafficModel

/// All rules, what they have seen lately, and the alerts in force. It has no clock: time comes with the samples.
public struct AlertBook {
    /// Groups or endpoints that a rule judges by themselves. Beyond, those of a user add up in one, `_other`.
    static let limit = GroupPlaces.Limit(ofUser: 100, inAll: 1_000)
    /// Users who have an `_other`. Those of further users add up in one.
    static let mostOthers = 1_000

    public private(set) var rules: [AlertRule] = []
    private var meters: [RuleMeters] = []
    private var budgets: [BudgetMeter] = []

    public init() {}

    /// The oldest first.
    public var alerts: [Alert] {
        (self.meters.flatMap(\.alerts) + self.budgets.compactMap(\.alert)).sorted { $0.order < $1.order }
    }

    /// A rule that stays as it is goes on with what it has seen.
    ///
    /// - Returns: The alerts that end because their rule is gone or another one.
    public mutating func configure(_ rules: [AlertRule]) -> [AlertChange] {
        let stay = Set(rules)
        let gone =
            self.meters.filter { !stay.contains($0.rule) }.flatMap(\.alerts)
            + self.budgets.filter { !stay.contains($0.rule) }.compactMap(\.alert)
        let (meters, budgets) = (self.meters, self.budgets)
        self.meters = rules.compactMap { rule in meters.first { $0.rule == rule } ?? RuleMeters(rule) }
        self.budgets = rules.compactMap { rule in budgets.first { $0.rule == rule } ?? BudgetMeter(rule) }
        self.rules = rules
        return gone.map { .ended($0) }
    }

    /// - Parameter userName: The name of a user; `nil` if it has none.
    public mutating func add(_ sample: AlertSample, userName: (UInt32) -> String?) -> [AlertChange] {
        var changes: [AlertChange] = []
        for index in self.meters.indices { changes += self.meters[index].add(sample, userName: userName) }
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

    /// Takes what history says of a rule. If the rule is gone meanwhile, nothing happens.
    public mutating func take(_ sum: BudgetSum, of rule: AlertRule) -> [AlertChange] {
        guard let index = self.budgets.firstIndex(where: { $0.rule == rule }) else { return [] }
        return self.budgets[index].take(sum)
    }

    /// For `doctor`, docs/security.md and its test.
    public static var limits: [DoctorReport.Limit] {
        [
            DoctorReport.Limit(
                of: "groups or endpoints that a rule of an alert judges",
                user: self.limit.ofUser,
                all: self.limit.inAll,
                beyond: "the rest adds up in `_other` of the user, and of users beyond all limits in one `_other`"
            )
        ]
    }
}

extension Alert {
    fileprivate var order: (Timestamp, String, String, String, String) {
        (self.since, self.rule, self.process?.name ?? "", self.host ?? "", self.route ?? "")
    }
}
