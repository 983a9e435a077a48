import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

@testable import TrafficLedger

@Suite("Series")
struct SeriesTests {
    private typealias F = LedgerFixture

    // MARK: Names

    @Test("a user gets half of the free places, and a name keeps its place")
    func places() {
        var names = SeriesNames<String>(limit: 8)
        let first = (0..<8).map { names.place(of: "a\($0)", 1) }
        #expect(first == [0, 1, 2, 3, nil, nil, nil, nil])
        // The next one has half of the rest, and so on: there is a place for each of some strangers.
        #expect((0..<8).map { names.place(of: "b\($0)", 2) }.compactMap { $0 } == [4, 5])
        #expect((0..<8).map { names.place(of: "c\($0)", 3) }.compactMap { $0 } == [6])
        #expect((0..<8).map { names.place(of: "d\($0)", 4) }.compactMap { $0 } == [7])
        #expect(names.place(of: "e", 5) == nil)
        // No place is given back, and what was refused stays refused.
        #expect(names.place(of: "a3", 1) == 3 && names.place(of: "a4", 1) == nil)
        #expect(names.names.count == 8)
    }

    @Test("subordinate ids hold their places together")
    func subordinateIDs() {
        var names = SeriesNames<String>(limit: 16)
        let taken = (0..<100).compactMap { names.place(of: "s\($0)", 65_536 + UInt32($0)) }
        #expect(taken.count == 8)
        #expect((0..<100).compactMap { names.place(of: "m\($0)", 1_000) }.count == 4)
        #expect(names.place(of: "stranger", 1_001) != nil && names.place(of: "s100", 65_636) == nil)
        var users = OverflowUsers()
        for user in UInt32(65_000)..<70_000 { users.add(user) }
        #expect(users.key(65_000) == 65_000 && users.key(65_199) == 65_199)
        #expect(users.key(65_200) == nil && users.key(65_536) == nil && users.key(nil) == nil)
    }

    @Test("names that no user chooses may take every place")
    func unsharedPlaces() {
        var names = SeriesNames<String>(limit: 3)
        #expect((0..<5).map { names.place(of: "\($0)") } == [0, 1, 2, nil, nil])
    }

    @Test("names have no control characters and no more than a limited length")
    func boundedNames() {
        let name = ProcessSeries(
            ProcessGroup(
                name: "a\u{0}b\n",
                executable: String(repeating: "é", count: 200),
                systemdUnit: "\u{7f}",
                uid: 1
            )
        )
        #expect(name.name == "a\u{fffd}b\u{fffd}" && name.systemdUnit == "\u{fffd}")
        #expect(name.executable == String(repeating: "é", count: 128))
        // An executable whose end begins in the middle of a character.
        let long = ProcessSeries(ProcessGroup(name: "a", executable: "é" + String(repeating: "b", count: 255), uid: 1))
        #expect(long.executable == String(repeating: "b", count: 255))
    }

    // MARK: Processes

    private static func details(_ name: String, uid: UInt32, container: String? = nil) -> ProcessDetails {
        ProcessDetails(name: name, executable: "/bin/\(name)", uid: uid, containerID: container)
    }

    /// A process that is known, sends and ends.
    private static func run(
        _ pid: Int32,
        _ name: String,
        sent: UInt64,
        uid: UInt32 = 7,
        container: String? = nil,
        in f: inout F
    ) {
        let process = F.process(pid)
        let owner = OwnerObservation(identity: process, name: name, uid: uid, payload: PayloadBytes(sent: sent))
        f.absorb(
            F.socket(UInt64(pid), [owner], closed: f.now),
            .details(process, Self.details(name, uid: uid, container: container)),
            .exited(process, at: f.snapshot.takenAt)
        )
        f.tick()
    }

    private static func sent(_ f: F) -> [String: UInt64] {
        Dictionary(
            f.metrics.processes.series.map { ($0.name.name, $0.value.payload.sent) },
            uniquingKeysWith: { _, _ in .max }
        )
    }

    @Test("a group's second life goes on with the sum of the first")
    func lives() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(2, inAll: 10)))
        for (pid, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "a")] as [(Int32, String)] {
            Self.run(pid, name, sent: 10, in: &f)
        }
        f.tick()
        // The life began anew, the series did not.
        #expect(f.balance.groups.lives.first { $0.group.name == "a" }?.bytes.payload.sent == 10)
        #expect(Self.sent(f) == ["a": 20, "b": 10, "c": 10])
        #expect(f.metrics.processes.overflow.values.map(\.payload.sent).reduce(0, +) == 0)
    }

    @Test("containers of one program share a series")
    func containers() {
        var f = F()
        for pid in 1...3 { Self.run(Int32(pid), "app", sent: 5, container: "c\(pid)", in: &f) }
        #expect(f.balance.groups.lives.count == 3)
        #expect(Self.sent(f) == ["app": 15])
    }

    @Test("processes without a series of their own are in the overflow of their user, and only of theirs")
    func overflow() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(5_000, inAll: 9_000)))
        let mine = SeriesLimits.processes / 2
        for pid in 0..<(mine + 7) { Self.run(Int32(pid + 1), "p\(pid)", sent: 3, in: &f) }
        Self.run(30_000, "stranger", sent: 11, uid: 8, in: &f)
        f.tick()
        let sums = f.metrics.processes
        #expect(sums.series.count == mine + 1)
        #expect(sums.series.last?.name.name == "stranger" && sums.series.last?.value.payload.sent == 11)
        #expect(sums.overflow.mapValues(\.payload.sent) == [.init(user: 7): 21])
    }

    @Test("no series falls in any history, over restarts and with tight limits, and all add up", arguments: 300..<304)
    func randomHistories(_ seed: UInt64) throws {
        var fixture = F()
        fixture.ledger = try CheckpointTests.ledger()
        var last = fixture.metrics
        for (index, event) in RandomEvents.events(seed: seed, rounds: 90).enumerated() {
            fixture.ledger.absorb(event)
            // What other programs would do with it is in another test: here no event comes twice.
            if index % 97 == 96 { fixture.ledger = try CheckpointTests.restored(fixture.ledger) }
            let now = fixture.metrics
            try #require(Self.fallen(now.processes, since: last.processes, Self.numbers) == [])
            try #require(Self.fallen(now.interfaces, since: last.interfaces, Self.numbers) == [])
            try #require(Self.fallen(now.endpoints, since: last.endpoints, Self.numbers) == [])
            last = now
            let balance = fixture.balance
            var sum = balance.groups.unknown + balance.groups.unowned
            for series in now.processes.series { sum += series.value }
            for value in now.processes.overflow.values { sum += value }
            try #require(sum.payload == balance.bytes.payload)
            try #require(sum.retransmitted ?? 0 == balance.bytes.retransmitted ?? 0)
            try #require(
                (sum.wireSent ?? 0, sum.wireReceived ?? 0) == (
                    balance.bytes.wireSent ?? 0, balance.bytes.wireReceived ?? 0
                )
            )
        }
        #expect(last.processes.series.count > 5 && !last.interfaces.series.isEmpty && !last.endpoints.series.isEmpty)
    }

    private static func numbers(_ bytes: ByteCounts) -> [UInt64] {
        [
            bytes.payload.sent, bytes.payload.received, bytes.wireSent ?? 0, bytes.wireReceived ?? 0,
            bytes.retransmitted ?? 0,
        ]
    }

    private static func numbers(_ counts: InterfaceCounts) -> [UInt64] {
        [counts.sentBytes, counts.receivedBytes, counts.sentPackets, counts.receivedPackets]
    }

    private static func numbers(_ value: EndpointSeriesCounts) -> [UInt64] {
        let counts = value.counts
        return [
            counts.requests, counts.ended, counts.failures, counts.repeated, counts.sent.message, counts.sent.body,
            counts.received.message, counts.received.body, value.durations.sum,
        ] + (value.durations.counts.isEmpty ? [UInt64](repeating: 0, count: 15) : value.durations.counts)
    }

    /// Series that are gone, at another place, or lower than before, and such overflows.
    private static func fallen<Name, Value>(
        _ now: MetricsReading.Sums<Name, Value>,
        since earlier: MetricsReading.Sums<Name, Value>,
        _ numbers: (Value) -> [UInt64]
    ) -> [String] {
        var result: [String] = []
        for (index, before) in earlier.series.enumerated() {
            guard index < now.series.count, now.series[index].name == before.name else { return ["\(before.name)"] }
            let pairs = zip(numbers(now.series[index].value), numbers(before.value))
            if pairs.contains(where: { $0 < $1 }) { result.append("\(before.name)") }
        }
        for (key, before) in earlier.overflow {
            let pairs = zip(now.overflow[key].map(numbers) ?? [], numbers(before))
            if now.overflow[key] == nil || pairs.contains(where: { $0 < $1 }) { result.append("\(key)") }
        }
        return result
    }

    /// One process that runs one program after the other: the ledger knows the identities as quickly as they come.
    @Test("20,000 identities: the sum is exact, the series are limited, and none falls over 10 restarts")
    func manyIdentities() throws {
        var fixture = F()
        let process = F.process(1)
        var sent: UInt64 = 0
        var last = fixture.metrics
        for number in 0..<20_000 {
            let name = "p\(number)"
            sent += UInt64(number % 1_000 + 1)
            let owner = OwnerObservation(identity: process, name: name, uid: 7, payload: PayloadBytes(sent: sent))
            fixture.absorb(
                .executed(process, Execution(name: name, uid: 0, boottimeNanoseconds: .max)),
                F.socket(1, [owner]),
                .details(process, Self.details(name, uid: UInt32(number % 3)))
            )
            guard number % 2_000 == 1_999 else { continue }
            fixture.ledger = try Ledger(checkpoint: fixture.ledger.checkpoint())
            fixture.tick()
            let now = fixture.metrics
            #expect(Self.fallen(now.processes, since: last.processes, Self.numbers) == [])
            last = now
        }
        #expect(last.processes.series.count <= SeriesLimits.processes)
        #expect(last.processes.series.count > SeriesLimits.processes / 2)
        let series = last.processes.series.reduce(UInt64(0)) { $0 + $1.value.payload.sent }
        let overflow = last.processes.overflow.values.reduce(UInt64(0)) { $0 + $1.payload.sent }
        #expect(series + overflow == sent && overflow > 0)
        #expect(last.processes.overflow.count == 3)
    }

    @Test("after a start with the sums of another version, all series begin at 0, and say since when")
    func sums() throws {
        let retention = Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(2, inAll: 10))
        var f = F(retention: retention)
        // The life of "a" ends, and then it has another.
        for (pid, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "a")] as [(Int32, String)] {
            Self.run(pid, name, sent: 10, in: &f)
        }
        f.tick()
        let before = f.metrics
        #expect(before.seriesSince == before.countingSince)
        f.ledger = try Ledger(sums: f.ledger.sums(), retention: retention)
        f.tick()
        #expect(Self.sent(f).values.allSatisfy { $0 == 0 })
        #expect(f.metrics.processes.overflow.values.allSatisfy { $0.payload.sent == 0 })
        #expect(f.metrics.seriesSince == before.takenAt && f.metrics.countingSince == before.countingSince)
        #expect(f.metrics.host == before.host)
        Self.run(5, "a", sent: 3, in: &f)
        Self.run(6, "d", sent: 4, in: &f)
        f.tick()
        #expect(Self.sent(f).filter { $0.value > 0 } == ["a": 3, "d": 4])
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint(), retention: retention)
        #expect(Self.sent(f).filter { $0.value > 0 } == ["a": 3, "d": 4])
        #expect(f.metrics.seriesSince == before.takenAt)
    }

    // MARK: Endpoints

    private static func exchange(_ number: UInt64, _ role: Report.Role, host: String, route: String) -> Report.Record {
        let name = Report.Name(method: "GET", host: host, route: route)
        var exchange = Report.Exchange(number: number, name: name)
        exchange.role = role
        exchange.startedAt = 1_000_000_000
        var outcome = Report.Exchange.Outcome()
        (outcome.status, outcome.ending) = (number % 2 == 0 ? 200 : 500, number % 2 == 0 ? .ok : .http5xx)
        outcome.duration = number * 1_000_000
        exchange.outcome = outcome
        return .exchange(exchange)
    }

    @Test("a client's endpoint has its host, a server's has not: whoever asks would choose it")
    func endpoints() throws {
        var f = F.reporting()
        f.report([
            Self.exchange(1, .client, host: "one.example", route: "/a"),
            Self.exchange(2, .client, host: "two.example", route: "/a"),
            Self.exchange(5, .server, host: "evil-1.example", route: "/{id}"),
            Self.exchange(6, .server, host: "evil-2.example", route: "/{id}"),
        ])
        let series = f.metrics.endpoints.series
        #expect(series.map(\.name.host) == ["one.example", "two.example", ""])
        let server = try #require(series.last)
        #expect(server.name.role == .server && server.name.route == "/{id}" && server.name.process.name == "web")
        #expect(server.value.counts.ended == 2 && server.value.counts.failures == 1)
        // 5 ms and 6 ms: a duration that is equal to a bound is below it.
        #expect(Array(server.value.durations.counts.prefix(3)) == [1, 1, 0] && server.value.durations.sum == 11_000)
        #expect(f.metrics.endpoints.overflow.isEmpty)
    }

    @Test("endpoints without a series of their own are in the overflow of their user and role, also after a restart")
    func endpointOverflow() throws {
        var f = F.reporting()
        // One program has fewer than a user.
        let mine = SeriesLimits.endpointsOfProcess
        let extra = 40
        for start in stride(from: 1, to: mine + extra, by: 20) {
            f.report(
                (start..<start + 20).map {
                    Self.exchange(UInt64($0), .client, host: "a.example", route: "/\($0)")
                }
            )
        }
        for _ in 0..<2 {
            let sums = f.metrics.endpoints
            #expect(sums.series.count == mine)
            #expect(sums.overflow.mapValues(\.counts.ended) == [.init(user: 33, role: .client): UInt64(extra)])
            f.ledger = try Ledger(checkpoint: f.ledger.checkpoint())
        }
    }

    @Test("durations fall into the buckets of the semantic conventions")
    func buckets() {
        var buckets = DurationBuckets()
        for microseconds: UInt64 in [0, 5_000, 5_001, 10_000_000, 10_000_001, 1 << 40] { buckets.record(microseconds) }
        #expect(buckets.counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2])
        #expect(buckets.sum == 20_010_002 + 1 << 40)
    }

    // MARK: Interfaces

    @Test("what an interface counted under a name stays there when it gets another, and when it is gone")
    func interfaces() {
        var f = F()
        func usage(_ name: String, _ index: UInt32, _ sent: UInt64) -> InterfaceUsage {
            InterfaceUsage(name: name, sentBytes: sent, receivedBytes: 0, networkNamespace: 1, index: index)
        }
        f.absorb(.interfaces([usage("lo", 1, 100)]))
        f.absorb(.interfaces([usage("lo", 1, 110), usage("wg0", 2, 30)]))
        f.absorb(.interfaces([usage("lo", 1, 120), usage("eth0", 2, 35)]))
        f.absorb(.interfaces([usage("lo", 1, 125)]))
        f.absorb(.interfaces([usage("lo", 1, 125), usage("wg0", 3, 4)]))
        let sums = f.metrics.interfaces
        #expect(sums.series.map(\.name) == ["lo", "wg0", "eth0"])
        #expect(sums.series.map(\.value.sentBytes) == [25, 34, 5])
        #expect(sums.overflow == [:])
    }

    @Test("interfaces that engines name at random share a series, and one that counted nothing has none")
    func randomInterfaces() {
        var f = F()
        func usage(_ name: String, _ index: UInt32, _ sent: UInt64) -> InterfaceUsage {
            InterfaceUsage(name: name, sentBytes: sent, receivedBytes: 0, networkNamespace: 1, index: index)
        }
        f.absorb(.interfaces([usage("lo", 1, 100), usage("veth", 2, 0)]))
        let names = [
            "veth1a2b3c", "vethffffff", "cali0123", "lxc1a2b3c4d5e6f", "br-0123456789ab", "vnet7", "idle0", "veth",
            "lxcbr0", "br-lan",
        ]
        f.absorb(
            .interfaces(names.enumerated().map { usage($1, UInt32($0 + 3), $1 == "idle0" ? 0 : 10) })
        )
        let sums = f.metrics.interfaces.series
        let wanted: [String: UInt64] = [
            "veth*": 20, "cali*": 10, "lxc*": 10, "br-*": 10, "vnet*": 10, "veth": 10, "lxcbr0": 10, "br-lan": 10,
        ]
        #expect(Dictionary(uniqueKeysWithValues: sums.map { ($0.name, $0.value.sentBytes) }) == wanted)
        // Beyond the limit.
        let many = (0..<SeriesLimits.interfaces + 5).map { usage("eth\($0)", UInt32($0 + 100), 3) }
        f.absorb(.interfaces(many))
        #expect(f.metrics.interfaces.series.count == SeriesLimits.interfaces)
        #expect(f.metrics.interfaces.overflow.map(\.value.sentBytes) == [3 * UInt64(wanted.count + 5)])
    }
}
