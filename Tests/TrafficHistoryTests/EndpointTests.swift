import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficLimits
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

extension ServiceEndpoint {
    static func made(
        _ route: String,
        host: String = "api.example",
        role: EndpointRole = .client,
        name: String = "app",
        uid: UInt32
    ) -> ServiceEndpoint {
        let group = ProcessGroup(name: name, systemdUnit: "\(name).service", uid: uid)
        return ServiceEndpoint(process: group, role: role, host: host, route: route)
    }
}

extension EndpointCounts {
    /// Each with 10 bytes of header, 100 of body and 1 of the rest to receive.
    static func requests(_ number: UInt64, failures: UInt64 = 0) -> EndpointCounts {
        EndpointCounts(
            requests: number,
            ended: number,
            failures: failures,
            sent: MessageParts(header: 5 * number),
            received: MessageParts(header: 10 * number, body: 100 * number, rest: number)
        )
    }
}

extension HistoryMinute {
    static func requests(
        at time: Int64,
        _ endpoints: [ServiceEndpoint: UInt64],
        groups: [ProcessGroup: ByteCounts] = [:],
        interfaces: [String: InterfaceCounts] = [:]
    ) -> HistoryMinute {
        self.counts(at: time, endpoints.mapValues { .requests($0) }, groups: groups, interfaces: interfaces)
    }

    static func counts(
        at time: Int64,
        _ endpoints: [ServiceEndpoint: EndpointCounts],
        groups: [ProcessGroup: ByteCounts] = [:],
        interfaces: [String: InterfaceCounts] = [:]
    ) -> HistoryMinute {
        var growth = Balance.Growth()
        (growth.byEndpoint, growth.byGroup, growth.byInterface) = (endpoints, groups, interfaces)
        growth.bytes = groups.values.reduce(ByteCounts(), +)
        return HistoryMinute(growth, at: Timestamp(seconds: time), countedSeconds: 60)
    }
}

@Suite("Endpoints and interfaces in history")
struct EndpointHistoryTests {
    private static var now: Int64 { HistoryStoreTests.now }

    private static func store(_ folder: Folder) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
    }

    private static func report(
        _ store: HistoryStore,
        _ by: [HistoryDimension],
        filter: String = "",
        bucket: HistoryLevel? = nil,
        uid: UInt32? = nil,
        top: Int = 1_000
    ) throws -> HistoryReport {
        let question = HistoryQuestion(
            since: Timestamp(seconds: self.now),
            bucket: bucket,
            by: by,
            filter: try HistoryFilter(filter),
            top: top,
            uid: uid
        )
        try question.check()
        return try store.report(question, host: "h", now: self.now + 7_200)
    }

    private static func requests(_ report: HistoryReport) -> [UInt64] {
        report.rows.compactMap { if case .messages(let counts) = $0.amounts { counts.requests } else { nil } }
    }

    @Test("a request is in one sum of each level but that of 5 minutes, and another program reads the same sums")
    func levels() async throws {
        let folder = try Folder()
        var (store, random): (HistoryStore?, Seeded) = (try Self.store(folder), Seeded(7))
        var (requests, packets): (UInt64, UInt64) = (0, 0)
        for minute in 0..<3_000 {
            let (more, seen) = (
                UInt64.random(in: 1...50, using: &random), UInt64.random(in: 1...9_999, using: &random)
            )
            let interfaces = [
                "eth0": InterfaceCounts(sentBytes: seen, receivedBytes: 2, sentPackets: 3, receivedPackets: 4)
            ]
            try store?.add(
                .requests(at: Self.now + Int64(minute) * 60, [.made("/a", uid: 7): more], interfaces: interfaces)
            )
            (requests, packets) = (requests + more, packets + seen)
        }
        store = nil
        for level in ["hours", "days", "months"] {
            let sql = """
                SELECT sum(requests), sum(ended), sum(failures), sum(sent_header), sum(sent_body), sum(received_header),
                sum(received_body), sum(received_rest) FROM endpoint_\(level)
                """
            let said = "\(requests) \(requests) 0 \(5 * requests) 0 \(10 * requests) \(100 * requests) \(requests)\n"
            #expect(try await sums(folder, sql) == said)
        }
        for level in ["five_minutes", "hours", "days", "months"] {
            let sql =
                "SELECT sum(sent), sum(received), sum(sent_packets), sum(received_packets) FROM interface_\(level)"
            #expect(try await sums(folder, sql) == "\(packets) 6000 9000 12000\n")
        }
        #expect(
            try await sums(folder, "SELECT count(*) FROM sqlite_schema WHERE name = 'endpoint_five_minutes'") == "0\n"
        )
        // Minutes are kept for two days, and the present one.
        for table in ["endpoint_minutes", "interface_minutes"] {
            #expect(try await sums(folder, "SELECT count(*) FROM \(table)") == "2881\n")
        }
        #expect(try await sums(folder, "PRAGMA integrity_check") == "ok\n")
    }

    @Test("requests are divided by host, route and what a process has, each role by itself")
    func dimensions() throws {
        let store = try Self.store(try Folder())
        try store.add(
            .requests(
                at: Self.now,
                [
                    .made("/a", uid: 7): 5, .made("/b", uid: 7): 2, .made("/a", host: "other", uid: 7): 1,
                    .made("/a", role: .server, name: "web", uid: 33): 4,
                ],
                groups: [HistoryStoreTests.web: .sent(1_000_000)]
            )
        )
        try store.add(.requests(at: Self.now + 3_600, [.made("/a", uid: 7): 10]))
        let hosts = try Self.report(store, [.host])
        #expect(hosts.rows.map(\.name.host) == ["api.example", "api.example", "other"])
        #expect(hosts.rows.map(\.name.role) == ["client", "server", "client"] && Self.requests(hosts) == [17, 4, 1])
        #expect(hosts.sums == .messages(.requests(22)) && hosts.countedSeconds == 120)
        let routes = try Self.report(store, [.host, .route])
        #expect(routes.rows.map(\.name.route) == ["/a", "/a", "/b", "/a"] && Self.requests(routes) == [15, 4, 2, 1])
        let units = try Self.report(store, [.unit, .host])
        #expect(units.rows.map(\.name.systemdUnit) == ["app.service", "web.service", "app.service"])
        #expect(Self.requests(try Self.report(store, [.host], bucket: .hour)) == [7, 4, 1, 10])
        // A filter on endpoints makes any rows those of messages.
        let filtered = try Self.report(store, [.process], filter: "route:/A -host:other")
        #expect(filtered.rows.map(\.name.process) == ["app", "web"] && Self.requests(filtered) == [15, 4])
        #expect(Self.requests(try Self.report(store, [.total], filter: "host:other")) == [1])
        #expect(Self.requests(try Self.report(store, [.host], filter: "process:web")) == [4])
        #expect(Self.requests(try Self.report(store, [.host], filter: "rx>=1887")) == [17])
        #expect(try Self.report(store, [.process]).totals.payload.sent == 1_000_000)
        // A user learns nothing of others.
        #expect(Self.requests(try Self.report(store, [.host, .route], uid: 33)) == [4])
        #expect(try Self.report(store, [.host], filter: "host:api", uid: 33).sums == .messages(.requests(4)))
        #expect(try Self.report(store, [.host], filter: "user:7", uid: 33).rows == [])
        let top = try Self.report(store, [.host, .route], top: 1)
        #expect(top.rows.count == 1 && top.othersCount == 3 && top.others?.amounts == .messages(.requests(7)))
    }

    @Test("a user with 100,000 routes costs own details, and no request and no row of anyone else")
    func limits() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        let limits = try #require(HistorySeries.Kind.endpoint.limits)
        let mine = ServiceEndpoint.made("/mine", uid: 33)
        var sum: UInt64 = 0
        for minute in 0..<5 {
            var endpoints = [mine: UInt64(1)]
            for index in 0..<20_000 {
                let role: EndpointRole = index % 2 == 0 ? .client : .server
                endpoints[.made("/\(minute)/\(index)", role: role, uid: 1_000)] = 2
                sum += 2
            }
            let made = HistoryMinute.requests(at: Self.now + Int64(minute) * 60, endpoints)
            // And the rest, of each role.
            #expect(made.sums.count == 1 + 1 + limits.minute.ofUser + 2)
            #expect(made.sums[.endpoint(mine)] == .messages(.requests(1)))
            // A minute of the same user that could not be written makes no difference.
            var joined = made
            joined.add(.requests(at: Self.now, [.made("/late/\(minute)", uid: 1_000): 2]))
            sum += 2
            #expect(joined.sums.count == made.sums.count)
            try store?.add(joined)
            // The limit of the month holds over a restart.
            if minute == 3 { store = try Self.store(folder) }
        }
        store = nil
        let of = "FROM endpoint_months JOIN series ON id = series WHERE uid ="
        #expect(
            try await sums(folder, "SELECT sum(requests), count(*) \(of) 1000") == "\(sum) \(limits.month.ofUser + 2)\n"
        )
        let other = "SELECT name, role, count(*) \(of) 1000 AND host = '_other' AND route = '_other' GROUP BY 1, 2"
        #expect(try await sums(folder, other) == "_other client 1\n_other server 1\n")
        #expect(try await sums(folder, "SELECT sum(requests), route \(of) 33") == "5 /mine\n")
        let minutes = "SELECT sum(requests) FROM endpoint_minutes JOIN series ON id = series WHERE uid ="
        #expect(try await sums(folder, "\(minutes) 1000") == "\(sum)\n")
    }

    @Test("users who fill all places together leave places to a user with few endpoints")
    func collusion() throws {
        let limit = try #require(HistorySeries.Kind.endpoint.limits).minute
        var endpoints: [ServiceEndpoint: UInt64] = [:]
        for index in 0..<10_000 { endpoints[.made("/\(index)", uid: UInt32(1_000 + index / 400))] = 1_000 }
        let mine = ServiceEndpoint.made("/mine", uid: 33)
        endpoints[mine] = 1
        let made = HistoryMinute.requests(at: Self.now, endpoints)
        #expect(made.sums[.endpoint(mine)] == .messages(.requests(1)))
        #expect(made.sums.count <= 2 * limit.inAll + 25 + 2)
    }

    @Test("programs that tell of impossible lengths make no sum fail, and change nobody else's")
    func hostile() throws {
        let store = try Self.store(try Folder())
        let (huge, mine) = (ServiceEndpoint.made("/huge", uid: 1_000), ServiceEndpoint.made("/mine", uid: 33))
        let most = MessageParts(header: .max, body: .max, rest: .max)
        let counts = EndpointCounts(requests: .max, ended: .max, failures: .max, sent: most, received: most)
        for minute in 0..<3_000 {
            try store.add(.counts(at: Self.now + Int64(minute), [huge: counts, mine: .requests(1)]))
            try store.add(
                .counts(at: Self.now + Int64(minute) * 2, [.made("/\(minute)", uid: 1_000): counts])
            )
        }
        let all = try Self.report(store, [.host])
        // One host, and the rest of the routes beyond the limit of a month.
        #expect(all.rows.count == 2 && Self.requests(all)[0] > 1 << 53)
        let routes = try Self.report(store, [.host, .route], top: 10_000)
        #expect(routes.rows.first { $0.name.route == "/mine" }?.amounts == .messages(.requests(3_000)))
        #expect(try Self.report(store, [.host], uid: 33).sums == .messages(.requests(3_000)))
    }

    @Test("interfaces have their own sums, also of 5 minutes, and what is beyond the limit adds up")
    func interfaces() throws {
        let store = try Self.store(try Folder())
        let counts = InterfaceCounts(sentBytes: 10, receivedBytes: 20, sentPackets: 1, receivedPackets: 2)
        try store.add(.requests(at: Self.now, [:], interfaces: ["eth0": counts, "lo": counts]))
        try store.add(.requests(at: Self.now + 60, [:], interfaces: ["eth0": counts]))
        let report = try Self.report(store, [.interface], bucket: .fiveMinutes)
        #expect(
            report.rows.map(\.name.interface) == ["eth0", "lo"] && report.rows.map(\.amounts.sum.sent) == [20, 10]
        )
        #expect(report.sums.sum == PayloadBytes(sent: 30, received: 60))
        let limits = try #require(HistorySeries.Kind.interface.limits)
        var many = ["eth0": InterfaceCounts(sentBytes: 1_000)]
        for index in 0..<limits.minute.inAll + 50 { many["veth\(index)"] = counts }
        let made = HistoryMinute.requests(at: Self.now, [:], interfaces: many)
        #expect(made.sums.count == 1 + limits.minute.inAll + 1)
        #expect(made.sums[.interface("_other")]?.sum.sent == 510)
        #expect(made.sums[.interface("eth0")]?.sum.sent == 1_000)
    }
}
