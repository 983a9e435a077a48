import Testing
import TrafficAlerts
import TrafficConfiguration
import TrafficQuery

@Suite("Rules of alerts in a configuration file")
struct AlertRuleTests {
    @Test("each kind of rule is read")
    func kinds() throws {
        let configuration = try Written(
            """
            alerts:
              - {name: uplink, match: "process:rsync", rate: 10M, for: 5m}
              - {name: month, match: "user:web", bytes: 500G, per: month}
              - {name: day, bytes: 1.5Gi, per: day, steps: [100%, 50%, 150%, 50%]}
              - name: line
                match: "route:/line -host:test"
                requests_every: 15s
              - {name: leak.1, match: "host:api.example", requests_growing: true}
              - {name: errors, match: app, failures: 20%, for: 30s}
              - {name: same, repeated: 90%, for: 10m}
              - {name: usual, match: "host:api.example", requests_over_past: 2.5x}
              - {name: new, match: "user:web", new_destination: true}
              - {name: quick, new_destination: true, learn: 1h}
            """
        ).configuration()
        func rule(_ name: String, _ match: String, _ kind: AlertRule.Kind) throws -> AlertRule {
            let filter = match.isEmpty ? .everything : try AlertFilter(match, for: kind.reported.reader)
            return AlertRule(name: name, filter: filter, kind: kind)
        }
        #expect(
            try configuration.alerts == [
                rule("uplink", "process:rsync", .rate(bytesPerSecond: 10_000_000, seconds: 300)),
                rule("month", "user:web", .bytes(500_000_000_000, per: .month)),
                rule("day", "", .bytes(3 << 29, per: .day, steps: [50, 100, 150])),
                rule("line", "route:/line -host:test", .requestsEvery(seconds: 15)),
                rule("leak.1", "host:api.example", .requestsGrowing),
                rule("errors", "app", .failures(share: 0.2, seconds: 30)),
                rule("same", "", .repeated(share: 0.9, seconds: 600)),
                rule("usual", "host:api.example", .requestsOverPast(multiple: 2.5)),
                rule("new", "user:web", .newDestination(learningSeconds: 7 * 86_400)),
                rule("quick", "", .newDestination(learningSeconds: 3_600)),
            ]
        )
        #expect(configuration.rulesWithoutHistory == ["month", "day", "usual", "new", "quick"])
        var kept = configuration
        kept.stateDirectory = "/srv/x"
        #expect(kept.rulesWithoutHistory == [])
    }

    @Test(
        "what is wrong with a rule is named with its place",
        arguments: [
            ("alerts: x", "1:9: error: alerts must be a list of rules, such as [{name: uplink, rate: 10M, for: 5m}]"),
            (
                "alerts: [x]",
                "1:10: error: a rule of alerts must be {KEY: VALUE, ...}, such as {name: uplink, rate: 10M, for: 5m}"
            ),
            ("alerts: [{rate: 1k, for: 5m}]", "1:10: error: alerts: a rule has no name: add name: uplink"),
            (
                "alerts: [{name: a b, rate: 1k, for: 5m}]",
                "1:17: error: alerts: name is 'a b', and must be 1 to 64 letters, digits, - . and _"
            ),
            (
                "alerts: [{name: a}]",
                "1:10: error: alerts: rule 'a' has no condition: give it one of rate, bytes, requests_every, requests_growing, requests_over_past, failures, repeated, new_destination"
            ),
            (
                "alerts: [{name: a, rate: 1k, bytes: 1k, for: 5m}]",
                "1:10: error: alerts: rule 'a' has rate and bytes: make a rule of each"
            ),
            ("alerts: [{name: a, rate: 1k}]", "1:10: error: alerts: rule 'a' has rate without for: add for: 5m"),
            (
                "alerts: [{name: a, bytes: 1k, for: 5m}]",
                "1:10: error: alerts: rule 'a': bytes has no for"
            ),
            (
                "alerts: [{name: a, bytes: 1k}]",
                "1:10: error: alerts: rule 'a' has bytes without per: add per: month"
            ),
            (
                "alerts: [{name: a, bytes: 1k, per: yaer}]",
                "1:36: error: alerts: per is 'yaer', and must be one of day, month"
            ),
            (
                "alerts: [{name: a, bytes: 1k, per: day, steps: 80%}]",
                "1:48: error: alerts: steps must be a list, such as [80%, 100%] (did you mean [80%]?)"
            ),
            (
                "alerts: [{name: a, bytes: 1k, per: day, steps: []}]",
                "1:48: error: alerts: steps has 0 steps, and must have 1 to 10"
            ),
            (
                "alerts: [{name: a, bytes: 1k, per: day, steps: [1%, 2%, 3%, 4%, 5%, 6%, 7%, 8%, 9%, 10%, 11%]}]",
                "1:48: error: alerts: steps has 11 steps, and must have 1 to 10"
            ),
            ("alerts: [{name: a, bytes: 1k, per: day, steps: [1%, 1000%]}]", nil),
            (
                "alerts: [{name: a, bytes: 1k, per: day, steps: [0%]}]",
                "1:49: error: alerts: steps is '0%', and must be a whole percentage from 1% to 1000%, such as 80%"
            ),
            (
                "alerts: [{name: a, bytes: 1k, per: day, steps: [1001%]}]",
                "1:49: error: alerts: steps is '1001%', and must be a whole percentage from 1% to 1000%, such as 80%"
            ),
            (
                "alerts: [{name: a, rate: 1k, for: 5m, steps: [80%]}]",
                "1:10: error: alerts: rule 'a': rate has no steps"
            ),
            (
                "alerts: [{name: a, requests_every: 15s, for: 5m}]",
                "1:10: error: alerts: rule 'a': requests_every has no for"
            ),
            (
                "alerts: [{name: a, request_every: 15s}]",
                "1:20: error: unknown key 'request_every' in a rule of alerts (did you mean requests_every?)"
            ),
            (
                "alerts: [{name: a, rate: fast, for: 5m}]",
                "1:26: error: alerts: rate is 'fast', and must be a number of bytes such as 1500, 10k, 1.5M or 500G"
            ),
            ("alerts: [{name: a, rate: 1k, for: 5s}]", nil),
            (
                "alerts: [{name: a, rate: 1k, for: 4s}]",
                "1:35: error: alerts: for is 4s, and must be between 5s and 1d"
            ),
            ("alerts: [{name: a, requests_every: 1h}]", nil),
            (
                "alerts: [{name: a, requests_every: 61m}]",
                "1:36: error: alerts: requests_every is 61m, and must be between 1s and 1h"
            ),
            (
                "alerts: [{name: a, requests_growing: false}]",
                "1:38: error: alerts: requests_growing is 'false', and must be one of true"
            ),
            ("alerts: [{name: a, requests_over_past: 2x}]", nil),
            (
                "alerts: [{name: a, requests_over_past: 1.9x}]",
                "1:40: error: alerts: requests_over_past is '1.9x', and must be a multiple from 2x to 1000x, such as 3x"
            ),
            ("alerts: [{name: a, new_destination: true, learn: 62d}]", nil),
            (
                "alerts: [{name: a, new_destination: true, learn: 63d}]",
                "1:50: error: alerts: learn is 63d, and must be between 1h and 62d"
            ),
            (
                "alerts: [{name: a, new_destination: yes}]",
                "1:37: error: alerts: new_destination is 'yes', and must be one of true"
            ),
            (
                "alerts: [{name: a, new_destination: true, for: 7d}]",
                "1:10: error: alerts: rule 'a': new_destination has no for"
            ),
            (
                "alerts: [{name: a, rate: 1k, for: 5m, learn: 7d}]",
                "1:10: error: alerts: rule 'a': rate has no learn"
            ),
            (
                "alerts: [{name: a, match: \"host:x\", new_destination: true}]",
                "1:27: error: alerts: match of rule 'a': alerts about new destinations do not know 'host' at character 1, but these keys: process, user, unit, container"
            ),
            ("alerts: [{name: a, failures: 100%, for: 5m}]", nil),
            (
                "alerts: [{name: a, failures: 101%, for: 5m}]",
                "1:30: error: alerts: failures is '101%', and must be a share such as 20%, more than 0% and at most 100%"
            ),
            (
                "alerts: [{name: a, match: \"pid:1\", rate: 1k, for: 5m}]",
                "1:27: error: alerts: match of rule 'a': alerts about bytes do not know 'pid' at character 1, but these keys: process, user, unit, container"
            ),
            (
                "alerts: [{name: a, match: \"route:/x\", rate: 1k, for: 5m}]",
                "1:27: error: alerts: match of rule 'a': alerts about bytes do not know 'route' at character 1, but these keys: process, user, unit, container"
            ),
            (
                "alerts: [{name: a, match: \"x status:404\", requests_every: 15s}]",
                "1:27: error: alerts: match of rule 'a': alerts about requests do not know 'status' at character 3, but these keys: process, user, unit, container, host, route"
            ),
            (
                "alerts:\n  - {name: a, rate: 1k, for: 5m}\n  - {name: a, rate: 2k, for: 5m}",
                "3:5: error: alerts: a rule 'a' is in line 2 already: give this one another name"
            ),
        ] as [(String, String?)]
    )
    func wrong(text: String, line: String?) throws {
        #expect(try Written(text).lines() == (line.map { [$0] } ?? []))
    }

    @Test("there may be 32 rules")
    func most() throws {
        func rules(_ count: Int) throws -> Written {
            let rules = (0..<count).map { "{name: r\($0), rate: 1k, for: 5m}" }.joined(separator: ", ")
            return try Written("alerts: [\(rules)]")
        }
        #expect(try rules(32).configuration().alerts.count == 32)
        #expect(try rules(33).lines() == ["1:9: error: alerts has 33 rules, and may have 32"])
    }
}
