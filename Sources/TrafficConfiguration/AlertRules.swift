import CommandOptions
import TrafficAlerts
import TrafficQuery

extension ValueForm<[AlertRule]> {
    static let alerts = Self(
        read: { (name, node) throws(ConfigurationProblems) in try AlertRules.read(name, node) },
        show: { $0.isEmpty ? nil : $0.map(\.description).joined(separator: "; ") }
    )
}

/// The section of rules: a list of `{name: uplink, match: "process:rsync", rate: 10M, for: 5m}`.
enum AlertRules {
    static func read(_ name: String, _ node: YAMLNode) throws(ConfigurationProblems) -> [AlertRule] {
        guard case .list(let items) = node.content else {
            if case .empty = node.content { return [] }
            throw ConfigurationProblems(
                "\(name) must be a list of rules, such as [{name: uplink, rate: 10M, for: 5m}]",
                at: node.position
            )
        }
        guard items.count <= AlertRule.most else {
            throw ConfigurationProblems(
                "\(name) has \(items.count) rules, and may have \(AlertRule.most)",
                at: node.position
            )
        }
        var (rules, lines, problems) = ([AlertRule](), [String: Int](), [ConfigurationProblem]())
        for item in items {
            do throws(ConfigurationProblems) {
                let rule = try RuleReader(name, item).rule()
                if let line = lines[rule.name] {
                    let text = "\(name): a rule '\(rule.name)' is in line \(line) already: give this one another name"
                    throw ConfigurationProblems(text, at: item.position)
                }
                lines[rule.name] = item.position.line
                rules.append(rule)
            } catch {
                problems += error.all
            }
        }
        guard problems.isEmpty else { throw ConfigurationProblems(all: problems) }
        return rules
    }
}

/// One rule.
private struct RuleReader {
    /// What a rule is about, and the key that it needs beside.
    private enum Condition: String, CaseIterable {
        case rate, bytes
        case requestsEvery = "requests_every"
        case requestsGrowing = "requests_growing"
        case requestsOverPast = "requests_over_past"
        case failures, repeated
        case newDestination = "new_destination"

        var companion: String? {
            switch self {
            case .rate, .failures, .repeated: "for"
            case .bytes: "per"
            case .requestsEvery, .requestsGrowing, .requestsOverPast, .newDestination: nil
            }
        }

        /// The key that it may have beside.
        var option: String? {
            switch self {
            case .bytes: "steps"
            case .newDestination: "learn"
            case .rate, .requestsEvery, .requestsGrowing, .requestsOverPast, .failures, .repeated: nil
            }
        }

        static let names = Self.allCases.map(\.rawValue).joined(separator: ", ")
    }

    private static let keys =
        ["name", "match"] + Condition.allCases.map(\.rawValue) + ["for", "per", "steps", "learn"]

    private let section: String
    private let position: TextPosition
    private let values: [String: YAMLNode]

    init(_ section: String, _ node: YAMLNode) throws(ConfigurationProblems) {
        guard case .mapping(let entries) = node.content else {
            throw ConfigurationProblems(
                "a rule of \(section) must be {KEY: VALUE, ...}, such as {name: uplink, rate: 10M, for: 5m}",
                at: node.position
            )
        }
        let unknown = entries.filter { !Self.keys.contains($0.key) }.map { entry in
            let nearest = Self.keys.nearest(to: entry.key)
            return ConfigurationProblem(
                "unknown key '\(entry.key)' in a rule of \(section)"
                    + (nearest == nil ? "; known: \(Self.keys.joined(separator: ", "))" : ""),
                at: entry.position,
                suggestion: nearest
            )
        }
        guard unknown.isEmpty else { throw ConfigurationProblems(all: unknown) }
        (self.section, self.position) = (section, node.position)
        self.values = entries.reduce(into: [:]) { $0[$1.key] = $1.value }
    }

    func rule() throws(ConfigurationProblems) -> AlertRule {
        let name = try self.value("name", example: "uplink", Self.name)
        let condition = try self.condition(of: name)
        let kind = try self.kind(condition)
        let filter: AlertFilter
        if self.values["match"] == nil {
            filter = .everything
        } else {
            filter = try self.value("match", example: "process:rsync") { (text) throws(ValueFault) in
                do throws(FilterError) {
                    return try AlertFilter(text, for: kind.reported.reader)
                } catch {
                    throw ValueFault(message: "of rule '\(name)': \(error)")
                }
            }
        }
        return AlertRule(name: name, filter: filter, kind: kind)
    }

    private func condition(of name: String) throws(ConfigurationProblems) -> Condition {
        let given = Condition.allCases.filter { self.values[$0.rawValue] != nil }
        guard let condition = given.first else {
            throw self.problem("rule '\(name)' has no condition: give it one of \(Condition.names)")
        }
        guard given.count == 1 else {
            let words = given.map(\.rawValue).joined(separator: " and ")
            throw self.problem("rule '\(name)' has \(words): make a rule of each")
        }
        for key in ["for", "per"] {
            if key == condition.companion, self.values[key] == nil {
                let example = key == "for" ? "for: 5m" : "per: month"
                throw self.problem("rule '\(name)' has \(condition.rawValue) without \(key): add \(example)")
            }
            if key != condition.companion, self.values[key] != nil {
                throw self.problem("rule '\(name)': \(condition.rawValue) has no \(key)")
            }
        }
        for key in ["steps", "learn"] where key != condition.option && self.values[key] != nil {
            throw self.problem("rule '\(name)': \(condition.rawValue) has no \(key)")
        }
        return condition
    }

    private func kind(_ condition: Condition) throws(ConfigurationProblems) -> AlertRule.Kind {
        let key = condition.rawValue
        switch condition {
        case .rate:
            return .rate(
                bytesPerSecond: Double(try self.value(key, example: "10M", Self.amount)),
                seconds: try self.time("for", in: AlertRule.times)
            )
        case .bytes:
            let bytes = try self.value(key, example: "500G", Self.amount)
            let words = AlertRule.Period.allCases.map { ($0.rawValue, $0) }
            let period = try ValueForm.word(words).read(self.name(of: "per"), self.node("per"))
            return .bytes(bytes, per: period, steps: try self.steps())
        case .requestsEvery:
            return .requestsEvery(seconds: try self.time(key, in: AlertRule.periods))
        case .requestsGrowing:
            // A key needs a value; no rule is the way to switch it off.
            return try ValueForm.word([("true", AlertRule.Kind.requestsGrowing)])
                .read(self.name(of: key), self.node(key))
        case .requestsOverPast:
            return .requestsOverPast(multiple: try self.value(key, example: "3x", Self.multiple))
        case .newDestination:
            let seconds =
                self.values["learn"] == nil
                ? AlertRule.learningTime : try self.time("learn", in: AlertRule.learningTimes)
            return try ValueForm.word([("true", AlertRule.Kind.newDestination(learningSeconds: seconds))])
                .read(self.name(of: key), self.node(key))
        case .failures:
            return .failures(
                share: try self.value(key, example: "20%", Self.share),
                seconds: try self.time("for", in: AlertRule.times)
            )
        case .repeated:
            return .repeated(
                share: try self.value(key, example: "90%", Self.share),
                seconds: try self.time("for", in: AlertRule.times)
            )
        }
    }

    // MARK: Values

    private func node(_ key: String) -> YAMLNode {
        self.values[key] ?? YAMLNode(content: .empty, position: self.position)
    }

    private func name(of key: String) -> String { "\(self.section): \(key)" }

    private func value<Value>(
        _ key: String,
        example: String,
        _ parse: (String) throws(ValueFault) -> Value
    ) throws(ConfigurationProblems) -> Value {
        guard self.values[key] != nil else { throw self.problem("a rule has no \(key): add \(key): \(example)") }
        return try parsed(self.name(of: key), self.node(key), example: example, parse)
    }

    private func time(_ key: String, in range: ClosedRange<Double>) throws(ConfigurationProblems) -> Double {
        let times = TimeSpan(seconds: range.lowerBound)...TimeSpan(seconds: range.upperBound)
        return try ValueForm.time(in: times).read(self.name(of: key), self.node(key)).seconds
    }

    private func problem(_ text: String) -> ConfigurationProblems {
        ConfigurationProblems("\(self.section): \(text)", at: self.position)
    }

    private func steps() throws(ConfigurationProblems) -> [Int] {
        guard self.values["steps"] != nil else { return AlertRule.usualSteps }
        let (name, node) = (self.name(of: "steps"), self.node("steps"))
        let steps = Set(try parsedItems(name, node, example: "80%, 100%", Self.step)).sorted()
        guard (1...AlertRule.mostSteps).contains(steps.count) else {
            let text = "\(name) has \(steps.count) steps, and must have 1 to \(AlertRule.mostSteps)"
            throw ConfigurationProblems(text, at: node.position)
        }
        return steps
    }

    private static func step(_ text: String) throws(ValueFault) -> Int {
        guard text.hasSuffix("%"), let percent = Int(text.dropLast()), AlertRule.stepPercents ~= percent else {
            let (least, most) = (AlertRule.stepPercents.lowerBound, AlertRule.stepPercents.upperBound)
            throw ValueFault(
                message: "is '\(text)', and must be a whole percentage from \(least)% to \(most)%, such as 80%"
            )
        }
        return percent
    }

    private static func name(_ text: String) throws(ValueFault) -> String {
        let isName = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                true
            default: false
            }
        }
        guard isName, (1...64).contains(text.utf8.count) else {
            throw ValueFault(message: "is '\(text)', and must be 1 to 64 letters, digits, - . and _")
        }
        return text
    }

    private static func amount(_ text: String) throws(ValueFault) -> UInt64 {
        guard let number = Amount.number(text, unit: "b"), 1..<1e18 ~= number else {
            throw ValueFault(message: "is '\(text)', and must be a number of bytes such as 1500, 10k, 1.5M or 500G")
        }
        return UInt64(number)
    }

    private static func multiple(_ text: String) throws(ValueFault) -> Double {
        guard text.hasSuffix("x"), let times = Double(text.dropLast()), AlertRule.multiples ~= times else {
            let (least, most) = (Int(AlertRule.multiples.lowerBound), Int(AlertRule.multiples.upperBound))
            throw ValueFault(message: "is '\(text)', and must be a multiple from \(least)x to \(most)x, such as 3x")
        }
        return times
    }

    private static func share(_ text: String) throws(ValueFault) -> Double {
        guard text.hasSuffix("%"), let percent = Double(text.dropLast()), percent > 0, percent <= 100 else {
            throw ValueFault(message: "is '\(text)', and must be a share such as 20%, more than 0% and at most 100%")
        }
        return percent / 100
    }
}

extension ConfigurationProblems {
    fileprivate init(_ text: String, at position: TextPosition) {
        self.init(all: [ConfigurationProblem(text, at: position)])
    }
}
