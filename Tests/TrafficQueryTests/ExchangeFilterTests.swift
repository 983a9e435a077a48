import Testing
import TrafficModel
import TrafficQuery

@Suite("Filters on exchanges and endpoints")
struct ExchangeFilterTests {
    private static func exchange(
        _ number: UInt64,
        _ process: ProcessUsage,
        _ method: String,
        _ host: String,
        _ route: String,
        _ status: UInt16?,
        _ outcome: ExchangeOutcome?
    ) -> ExchangeUsage {
        ExchangeUsage(
            process: process.identity,
            processName: process.details.name,
            exchange: number,
            role: .client,
            method: method,
            host: host,
            route: route,
            status: status,
            outcome: outcome,
            startedAt: Timestamp(nanosecondsSinceEpoch: 0)
        )
    }

    private static let reading: Reading = {
        var snapshot = FilterTests.snapshot
        let exchanges = [
            exchange(1, FilterTests.nginx, "GET", "api.example", "/orders/{id}", 200, .ok),
            exchange(2, FilterTests.nginx, "POST", "api.example", "/orders", 503, .http5xx),
            exchange(3, FilterTests.curl, "GET", "cdn.example", "/images/{name}", 404, .http4xx),
            exchange(4, FilterTests.curl, "GET", "cdn.example", "/slow", nil, nil),
        ]
        let group = ProcessGroup(FilterTests.nginx.details)
        snapshot.endpoints = [
            EndpointUsage(
                process: group,
                role: .server,
                subject: .route(host: "api.example", route: "/orders/{id}"),
                outcomes: [.ok: 5]
            ),
            EndpointUsage(
                process: group,
                role: .server,
                subject: .route(host: "api.example", route: "/orders"),
                outcomes: [.http5xx: 1]
            ),
        ]
        // Its last exchanges are no longer listed.
        snapshot.processes?[1].endpoints = [ProcessEndpoint(role: .client, host: "old.example", route: "/old")]
        return Reading(snapshot: snapshot, exchanges: exchanges)
    }()

    @Test(
        "each key matches what it names, and -key what it does not",
        arguments: [
            ("host:api", [1, 2]), ("host:CDN.example", [3, 4]), ("route:/orders", [1, 2]), ("route:{id}", [1]),
            ("method:get", [1, 3, 4]), ("method:POST,PUT", [2]), ("status:404", [3]), ("status:5xx", [2]),
            ("status:200-299,404", [1, 3]), ("outcome:ok", [1]), ("outcome:http_5xx,http_4xx", [2, 3]),
            ("-status:200", [2, 3, 4]), ("-outcome:ok", [2, 3, 4]), ("method:GET -host:cdn", [1]),
            ("process:curl status:404", [3]), ("process:curl status:200", []), ("rx>1M method:GET", [1]),
        ] as [(String, [UInt64])]
    )
    func exchanges(text: String, numbers: [UInt64]) throws {
        #expect(Self.reading.filtered(by: try Filter(text)).exchanges.map(\.exchange) == numbers)
    }

    @Test("a process passes with its sockets when one of its exchanges or own endpoints passes")
    func processes() throws {
        func passing(_ text: String) throws -> [Int32]? {
            Self.reading.filtered(by: try Filter(text)).snapshot.processes?.map(\.identity.pid)
        }
        #expect(try passing("status:503") == [101])
        #expect(try passing("host:example") == [101, 202])
        #expect(try passing("host:old") == [202])
        #expect(try passing("route:/none") == [])
        let server = Self.reading.filtered(by: try Filter("status:503")).snapshot
        #expect(server.sockets?.map(\.cookie.rawValue) == [1] && server.exited == [])
        #expect(server.totals.bytes == FilterTests.nginx.bytes)
    }

    @Test("an endpoint's row has its host, route and outcomes, and neither methods nor statuses")
    func endpoints() throws {
        func routes(_ text: String) throws -> [String?]? {
            Self.reading.filtered(by: try Filter(text)).snapshot.endpoints?.map(\.route)
        }
        #expect(try routes("host:api") == ["/orders/{id}", "/orders"])
        #expect(try routes("route:{id}") == ["/orders/{id}"])
        #expect(try routes("outcome:http_5xx") == ["/orders"])
        #expect(try routes("status:200") == [])
    }

    @Test(
        "a wrong status is an error that names the right forms",
        arguments: [
            "status:", "status:99", "status:1000", "status:0xx", "status:5x", "status:ok", "status:300-200",
            "outcome:bad",
        ]
    )
    func faults(text: String) {
        #expect(throws: FilterError.self) { try Filter(text) }
    }
}
