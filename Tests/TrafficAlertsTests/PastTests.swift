import TestSupport
import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficModel

@Suite("An endpoint's requests against its own past")
struct PastTests {
    /// What history would say of requests at these seconds, which are negative before the simulation begins.
    private static func past(_ requests: [(second: Double, count: UInt64)], at now: Double) -> EndpointPast {
        func hour(_ second: Double) -> Double { (second / 3_600).rounded(.down) * 3_600 }
        let until = hour(now - 3_600)
        let known = requests.filter { until - 8 * 86_400 <= $0.second && $0.second < until }
        let hours = Dictionary(grouping: known) { hour($0.second) }.mapValues { $0.reduce(0) { $0 + $1.count } }
        return EndpointPast(
            since: Simulation.time(hours.keys.min() ?? until),
            until: Simulation.time(until),
            mostRequests: hours.values.max() ?? 0
        )
    }

    /// So many requests in each minute of two days before the simulation.
    private static func usual(_ count: UInt64) -> (ServiceEndpoint, Double) -> EndpointPast? {
        { _, now in
            Self.past((-2_880..<0).map { (60 * Double($0), count) }, at: max(now, 0))
        }
    }

    private static func everyMinute(_ count: UInt64) -> (Double, inout AlertSample) -> Void {
        { second, sample in sample.ask(second.truncatingRemainder(dividingBy: 60) == 0 ? count : 0) }
    }

    @Test("more than so many times the most of an hour is an alert as soon as it is more, and ends when it is not")
    func times() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 3)))
        simulation.past = Self.usual(10)
        simulation.run(for: 7_200, Self.everyMinute(10))
        #expect(simulation.times == [])
        // 30 a minute is three times the usual, and not more.
        simulation.run(for: 7_200, Self.everyMinute(30))
        #expect(simulation.times == [])
        // The last hour is 19 slots of 3 minutes and the open one, so one request too many is not seen at once.
        simulation.run(for: 180, Self.everyMinute(31))
        #expect(simulation.times == [14_525])
        let alert = try #require(simulation.book.alerts.first)
        #expect(alert.kind == .requestsOverPast && alert.route == "/line" && alert.process == Simulation.app)
        #expect(alert.pastRequestsPerSecond == 1.0 / 6)
        #expect(alert.description.contains("at most 10.0 a minute before"))
        simulation.run(for: 3_600, Self.everyMinute(30))
        #expect(simulation.times.count == 2 && simulation.book.alerts.isEmpty)
    }

    @Test("a runaway is an alert within seconds of the request that is too many")
    func runaway() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 3)))
        simulation.past = Self.usual(1)
        simulation.run(for: 3_600, Self.everyMinute(1))
        // 10 a second: after 13 s there are more than 180 in an hour.
        simulation.run(for: 60) { _, sample in sample.ask(50) }
        #expect(simulation.times == [3_615])
    }

    @Test(
        "what came before comes again at any shift of hours without an alert, even at twice as many",
        arguments: 0..<8
    )
    func again(seed: UInt64) throws {
        var random = Seeded(seed)
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 2)))
        // Two days of bursts, and the same once more, up to an hour later.
        var bursts: [(second: Double, count: UInt64)] = (0..<200).map { _ in
            (5 * Double(Int.random(in: 0..<34_560, using: &random)), UInt64.random(in: 1...500, using: &random))
        }
        let shift = 5 * Double(Int.random(in: 0..<720, using: &random))
        // The worst: as many at the end of an hour by the clock as at the beginning of the next.
        bursts += [(second: 7_195, count: 100_000), (second: 7_200, count: 100_000)]
        let before = bursts.map { (second: $0.second - 172_800, count: $0.count) }
        let again = Dictionary(grouping: bursts) { $0.second + shift }.mapValues { $0.reduce(0) { $0 + $1.count } }
        // Also the hours of the second time become past.
        simulation.past = { _, now in Self.past(before + again.map { ($0.key, $0.value) }, at: now) }
        simulation.run(for: 176_400) { second, sample in sample.ask(again[second] ?? 0) }
        #expect(simulation.times == [])
        #expect(simulation.questions > 0)
    }

    @Test("fewer than 60 in an hour, and an endpoint that is younger than a day, are no alert")
    func small() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 2)))
        simulation.past = { _, now in Self.past([(-100_000, 1)], at: now) }
        simulation.run(for: 300) { second, sample in sample.ask(second == 0 ? 59 : 0) }
        #expect(simulation.times == [] && simulation.questions == 0)
        simulation.run(for: 300) { second, sample in sample.ask(second == 300 ? 1 : 0) }
        #expect(simulation.times == [305] && simulation.questions == 1)

        for age in [86_400 - 3_600.0, 86_400] {
            simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 2)))
            simulation.past = { _, now in Self.past([(-age - 3_600, 1)], at: now) }
            simulation.run(for: 300) { _, sample in sample.ask(100) }
            #expect(simulation.times == (age < 86_400 ? [] : [5]), "\(age)")
        }
        // History knows nothing at all.
        simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 2)))
        simulation.past = { _, now in Self.past([], at: now) }
        simulation.run(for: 600) { _, sample in sample.ask(100) }
        #expect(simulation.times == [] && simulation.questions == 1)
    }

    @Test("history is asked once an hour, and again where it did not answer")
    func questions() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 3)))
        simulation.run(for: 300, Self.everyMinute(100))
        #expect(simulation.questions > 10)
        let before = simulation.questions
        simulation.past = Self.usual(100)
        simulation.run(for: 36_000, Self.everyMinute(100))
        #expect((10...12).contains(simulation.questions - before), "\(simulation.questions - before)")
    }

    @Test("what an alert is about becomes the past after 8 days")
    func long() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 3)))
        let before = (-2_880..<0).map { (second: 60 * Double($0), count: 1 as UInt64) }
        let runaway = (0..<15_000).map { (second: 60 * Double($0), count: 10 as UInt64) }
        simulation.past = { _, now in Self.past(before + runaway, at: now) }
        simulation.run(for: 9 * 86_400, Self.everyMinute(10))
        #expect(simulation.times.count == 2)
        let ended = try #require(simulation.times.last.map { -$0 })
        #expect(ended >= 8 * 86_400 && ended < 8 * 86_400 + 7_200, "\(ended)")
    }

    @Test("the past of an alert is that of the time when it began, whatever history tells other rules")
    func otherRules() throws {
        var simulation = Simulation(
            try AlertRule(.requestsOverPast(multiple: 2), named: "low"),
            try AlertRule(.requestsOverPast(multiple: 10), named: "high")
        )
        let before = (-2_880..<0).map { (second: 60 * Double($0), count: 2 as UInt64) }
        let runaway = (0..<3_000).map { (second: 60 * Double($0), count: 10 as UInt64) }
        simulation.past = { _, now in Self.past(before + runaway, at: now) }
        simulation.run(for: 100_000, Self.everyMinute(10))
        #expect(simulation.times.count == 1 && simulation.book.alerts.map(\.rule) == ["low"])
        #expect(simulation.questions > 20)
    }

    @Test("endpoints beyond a user's limit are not judged: together they are no endpoint with a past")
    func other() throws {
        var simulation = Simulation(try AlertRule(.requestsOverPast(multiple: 2)))
        simulation.past = { _, now in Self.past([(-100_000, 1)], at: now) }
        simulation.run(for: 300) { _, sample in for route in 0..<150 { sample.ask(10, route: "/\(route)") } }
        #expect(simulation.times.count == 100 && simulation.questions == 100)
        #expect(simulation.book.alerts.allSatisfy { $0.route != EndpointUsage.other })
    }
}
