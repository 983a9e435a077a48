import Foundation
import TestSupport
import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficModel

@Suite("What a rule of an alert asks")
struct RuleTests {
    // MARK: Rate

    @Test("a rate begins when each fifth of the time is above it, and ends when the whole time is not")
    func rate() throws {
        var simulation = Simulation(try AlertRule(.rate(bytesPerSecond: 1_000, seconds: 25)))
        simulation.run(for: 1_000) { _, sample in sample.move(5_000) }
        #expect(simulation.times == [])
        simulation.run(for: 20) { _, sample in sample.move(5_001) }
        #expect(simulation.times == [])
        simulation.run(for: 5) { _, sample in sample.move(5_001) }
        #expect(simulation.times == [1_025])
        let alert = try #require(simulation.book.alerts.first)
        #expect(alert.process == Simulation.app && alert.since == Simulation.time(1_000) && alert.bytes == 25_005)
        #expect(alert.bytesPerSecond == 1_000.2 && alert.monthBytes == 2_592_518_400)
        // Four fifths with a byte more than allowed, and one with four less: the sum is the allowed one.
        simulation.run(for: 5) { _, sample in sample.move(4_996) }
        #expect(simulation.times == [1_025, -1_030] && simulation.book.alerts.isEmpty)
    }

    @Test("bytes so far go on while an alert lasts, and one lull does not end it")
    func lull() throws {
        var simulation = Simulation(try AlertRule(.rate(bytesPerSecond: 1_000, seconds: 25)))
        simulation.run(for: 300) { second, sample in if second != 100 { sample.move(50_000) } }
        #expect(simulation.times == [25])
        #expect(simulation.book.alerts.first?.bytes == 59 * 50_000)
        simulation.run(for: 60)
        #expect(simulation.times == [25, -325])
    }

    @Test("each group is judged by itself, and only those of the filter")
    func groups() throws {
        let other = ProcessGroup(name: "rsync", uid: 0)
        var simulation = Simulation(try AlertRule(.rate(bytesPerSecond: 1_000, seconds: 5), of: "user:web"))
        simulation.run(for: 60) { _, sample in
            sample.move(9_000)
            sample.move(9_000, by: other)
            sample.move(1_000, by: ProcessGroup(name: "small", uid: 1_000))
        }
        #expect(simulation.book.alerts.map(\.process) == [Simulation.app])
    }

    // MARK: A declared period

    @Test(
        "a timer that leaks one more timer a minute raises an alert within 2 minutes of the first, wherever slots begin",
        arguments: Array(stride(from: 0.0, to: 60, by: 2.5))
    )
    func leak(phase: Double) throws {
        var simulation = Simulation(try AlertRule(.requestsEvery(seconds: 15), of: "route:/line"))
        var timers = Timers(starts: [3])
        simulation.run(for: 3_600) { second, sample in sample.ask(timers.requests(at: second)) }
        #expect(simulation.times == [])
        let first = 3_600 + phase
        timers.starts += (0..<60).map { first + 60 * Double($0) }
        simulation.run(for: 1_800) { second, sample in sample.ask(timers.requests(at: second), bytes: 2_000) }
        #expect(simulation.times.count == 1)
        let began = try #require(simulation.times.first)
        #expect(began > first && began - first <= 120, "\(began - first)")
        let alert = try #require(simulation.book.alerts.first)
        #expect(alert.process == Simulation.app && alert.host == "api.example" && alert.route == "/line")
        // 30 timers after half an hour.
        #expect(abs(try #require(alert.requestsPerSecond) - 2) < 0.3)
        #expect(alert.bytes >= 1_800_000 && alert.since >= Simulation.time(first - 60))
        #expect(alert.description.contains("r: app of user 1000 as client of api.example /line since 2027-"))
        // The page is closed: its timers are gone, except for one.
        simulation.run(for: 300) { second, sample in sample.ask(Timers(starts: [3]).requests(at: second)) }
        #expect(simulation.times.count == 2 && simulation.book.alerts.isEmpty)
    }

    @Test("a page load of 50 requests, again and again, and a burst in each of two windows stay silent")
    func bursts() throws {
        var simulation = Simulation(try AlertRule(.requestsEvery(seconds: 15)))
        simulation.run(for: 7_200) { second, sample in
            sample.ask(
                Timers(starts: [3]).requests(at: second) + (second.truncatingRemainder(dividingBy: 600) == 0 ? 50 : 0)
            )
        }
        simulation.run(for: 600) { second, sample in sample.ask([7_230, 7_265].contains(second) ? 50 : 0) }
        #expect(simulation.times == [])
    }

    @Test("three windows with one and a half times the requests are not enough, with one more they are")
    func edge() throws {
        for (requests, isAlert) in [(6, false), (7, true)] as [(UInt64, Bool)] {
            var simulation = Simulation(try AlertRule(.requestsEvery(seconds: 5)))
            // Expected in a window of 20 s: 4. So many requests come in each.
            simulation.run(for: 60) { second, sample in
                sample.ask(second.truncatingRemainder(dividingBy: 20) == 0 ? requests : 0)
            }
            #expect(simulation.times == (isAlert ? [60] : []), "\(requests)")
        }
    }

    // MARK: Growth

    @Test("requests that grow with each visit raise an alert, whatever the period, and it ends when they do not grow")
    func growth() throws {
        var simulation = Simulation(try AlertRule(.requestsGrowing))
        var timers = Timers(starts: [3])
        simulation.run(for: 3_600) { second, sample in sample.ask(timers.requests(at: second)) }
        #expect(simulation.times == [])
        timers.starts += (1...20).map { 3_600 + 60 * Double($0) }
        simulation.run(for: 1_200) { second, sample in sample.ask(timers.requests(at: second)) }
        let began = try #require(simulation.times.first)
        #expect(simulation.times.count == 1 && began <= 3_600 + 15 * 60, "\(simulation.times)")
        simulation.run(for: 1_200) { second, sample in sample.ask(timers.requests(at: second)) }
        #expect(simulation.times.count == 2)
    }

    @Test("a nightly backup, page loads and a day with its ups and downs are no growth")
    func day() throws {
        var simulation = Simulation(
            try AlertRule(.requestsGrowing, named: "growing"),
            try AlertRule(.requestsEvery(seconds: 15), named: "line", of: "route:/line")
        )
        var random = Seeded(17)
        simulation.run(for: 86_400) { second, sample in
            let hour = second / 3_600
            // A server: between 1 and 11 requests a second, most at noon.
            let rate = 5 * (6 - 5 * cos(hour / 12 * .pi))
            sample.ask(random.poisson(rate), route: "/shop")
            // A page, visited now and then.
            if Int.random(in: 0..<240, using: &random) == 0 { sample.ask(50, route: "/page") }
            // The backup, from 3:00 on: 40 minutes of uploads.
            if hour >= 3, hour < 3.67 { sample.ask(random.poisson(40), route: "/upload", bytes: 5_000_000) }
            sample.ask(Timers(starts: [3]).requests(at: second))
        }
        #expect(simulation.times == [], "\(simulation.changes)")
    }

    @Test("slots that are longer because samples come late have more requests, and that is no growth")
    func lateSamples() throws {
        var book = AlertBook()
        _ = book.configure([try AlertRule(.requestsGrowing)])
        var changes: [AlertChange] = []
        for minute in 0..<40 {
            // Always 4 requests a second. Samples are joined while the watch waits for a directory service, ever longer.
            let seconds = 60 + 6 * Double(minute)
            var sample = AlertSample(takenAt: Simulation.time(Double(minute)), seconds: seconds)
            sample.ask(UInt64(4 * seconds))
            changes += book.add(sample) { _ in nil }
        }
        #expect(changes.isEmpty)
    }

    // MARK: Failures

    @Test("a share of failed exchanges counts from 20 exchanges on, and ends with the last of them")
    func failures() throws {
        var simulation = Simulation(try AlertRule(.failures(share: 0.2, seconds: 300)))
        simulation.run(for: 300) { second, sample in sample.ask(second < 95 ? 1 : 0, failing: 1) }
        #expect(simulation.times == [])
        simulation.run(for: 300)
        simulation.run(for: 60) { second, sample in sample.ask(second == 600 ? 25 : 0, failing: 4) }
        #expect(simulation.times == [])
        simulation.run(for: 60) { second, sample in sample.ask(second == 660 ? 1 : 0, failing: 2) }
        #expect(simulation.times == [720])
        let alert = try #require(simulation.book.alerts.first)
        #expect(alert.failedShare == 6.0 / 26 && alert.description.contains("23.1 % failed"))
        simulation.run(for: 400)
        #expect(simulation.times == [720, -960])
    }

    @Test("a share of repeated responses counts from 20 exchanges on")
    func repeated() throws {
        var simulation = Simulation(try AlertRule(.repeated(share: 0.9, seconds: 60)))
        // Fails, and each failure is another one.
        simulation.run(for: 120) { _, sample in sample.ask(5, failing: 5) }
        // All of 19, then 17 of 20: a share of 85 %.
        simulation.run(for: 200) { second, sample in sample.ask(second == 220 ? 19 : 0, repeating: 19) }
        simulation.run(for: 200) { second, sample in sample.ask(second == 420 ? 20 : 0, repeating: 17) }
        #expect(simulation.times == [])
        simulation.run(for: 20) { second, sample in sample.ask(second == 525 ? 20 : 0, repeating: 18) }
        #expect(simulation.times.count == 1)
        let alert = try #require(simulation.book.alerts.first)
        #expect(alert.repeatedShare == 0.9 && alert.failedShare == nil && alert.kind == .repeated)
        #expect(alert.description.contains("90.0 % repeated"))
        simulation.run(for: 100)
        #expect(simulation.times.count == 2)
    }

    // MARK: Budgets

    @Test("each step of a budget is said once, and the next month begins anew")
    func budget() throws {
        let rule = try AlertRule(.bytes(1_000, per: .month, steps: [50, 80, 100, 150]), named: "month")
        var book = AlertBook()
        _ = book.configure([rule])
        func take(_ bytes: UInt64, since: Double = 0, counted: UInt64 = 7_200) -> [String] {
            let sum = BudgetSum(
                since: Simulation.time(since),
                bytes: bytes,
                countedSeconds: counted,
                remainingSeconds: 14_400
            )
            return book.take(sum, of: rule).map {
                switch $0 {
                case .began(let alert): "+\(alert.stepRatio ?? 0)"
                case .rose(let alert): "^\(alert.stepRatio ?? 0)"
                case .ended(let alert): "-\(alert.stepRatio ?? 0)"
                }
            }
        }
        #expect(take(499) == [] && take(500) == ["+0.5"] && take(799) == [])
        #expect(book.alerts.first?.projectedBytes == 2_397 && book.alerts.first?.limitBytes == 1_000)
        #expect(take(800) == ["^0.8"] && take(999) == [] && take(1_000) == ["^1.0"] && take(1_499) == [])
        #expect(take(5_000) == ["^1.5"] && take(6_000) == [])
        #expect(take(10, since: 2_592_000) == ["-1.5"] && book.alerts.isEmpty)
        #expect(take(900, since: 2_592_000, counted: 3_599) == ["+0.8"])
        #expect(book.alerts.first?.projectedBytes == nil)
    }

    @Test("an alert about all processes of a rule together says whom the rule is about")
    func match() throws {
        let rule = try AlertRule(.bytes(1_000, per: .day), named: "day", of: "user:web")
        var book = AlertBook()
        _ = book.configure([rule])
        let sum = BudgetSum(since: Simulation.began, bytes: 1_000, countedSeconds: 60, remainingSeconds: 60)
        var less = sum
        less.bytes = 999
        #expect(book.take(less, of: rule).isEmpty, "without other steps, only all of the bytes are one")
        let alert = try #require(book.take(sum, of: rule).first?.alert)
        #expect(alert.match == "user:web" && alert.description.hasPrefix("day of 'user:web' since 2027-"))
    }
}

extension Seeded {
    /// A number of events that come independently of each other.
    fileprivate mutating func poisson(_ mean: Double) -> UInt64 {
        var (count, time) = (0 as UInt64, 0.0)
        while true {
            // The time between two events is exponential.
            time -= log(1 - Double.random(in: 0..<1, using: &self))
            if time > mean { return count }
            count += 1
        }
    }
}
