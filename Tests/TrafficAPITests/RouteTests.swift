import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel

@testable import TrafficAPI

@Suite("The routes of the control API")
struct RouteTests {
    let box = ReadingBox()
    let meter = FakeMeter()

    init() {
        self.box.readings.publish(Fixture.reading())
        self.box.publish(checks: [.init(name: "capture", status: .degraded, detail: "no trampolines", remedy: "reboot")]
        )
    }

    func get(
        _ path: String,
        as viewer: Viewer = .administrator,
        method: HTTPRequest.Method = .get
    ) async throws -> TestResponse {
        try await self.request(path, access: .fixed(viewer), method: method)
    }

    func request(
        _ path: String,
        access: ControlAPI.Access,
        method: HTTPRequest.Method = .get
    ) async throws -> TestResponse {
        let application = Application(
            router: ControlAPI.router(source: self.box, cost: self.meter, alerts: FakeAlerts(), access: access)
        )
        return try await application.test(.router) { client in
            try await client.executeRequest(uri: path, method: method, headers: [:], body: nil)
        }
    }

    func snapshot(_ path: String, as viewer: Viewer = .administrator) async throws -> Snapshot {
        let response = try await self.get(path, as: viewer)
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "application/json")
        #expect(response.headers[.cacheControl] == "no-store")
        return try JSONDecoder().decode(Snapshot.self, from: Data(response.body.readableBytesView))
    }

    func expectProblem(_ response: TestResponse, _ status: HTTPResponse.Status, parameter: String? = nil) throws {
        #expect(response.status == status)
        #expect(response.headers[.contentType] == "application/problem+json")
        let body = try JSONSerialization.jsonObject(with: Data(response.body.readableBytesView)) as? [String: Any]
        #expect(body?["status"] as? Int == status.code)
        #expect(body?["title"] as? String == status.reasonPhrase)
        #expect((body?["detail"] as? String)?.isEmpty == false)
        #expect(body?["parameter"] as? String == parameter)
    }

    @Test("Alerts are in each format, and only for administrators")
    func alerts() async throws {
        let response = try await self.get("/v1/alerts")
        let report = try JSONDecoder().decode(AlertReport.self, from: Data(response.body.readableBytesView))
        #expect(response.status == .ok && report == FakeAlerts.report)
        let csv = try await self.get("/v1/alerts?format=csv")
        #expect(
            String(buffer: csv.body).hasPrefix("rule,kind,") && csv.headers[.contentType]?.hasPrefix("text/csv") == true
        )
        for viewer in [Viewer.user(0), .network] {
            try self.expectProblem(try await self.get("/v1/alerts", as: viewer), .forbidden)
            try self.expectProblem(try await self.get("/v1/alerts/changes", as: viewer), .forbidden)
        }
        try self.expectProblem(try await self.get("/v1/alerts?filter=a"), .badRequest, parameter: "filter")
        try self.expectProblem(try await self.get("/v1/alerts/changes?after=17"), .badRequest, parameter: "after")
    }

    @Test("A snapshot has everything, and each other view has its part")
    func views() async throws {
        #expect(try await self.snapshot("/v1/snapshot") == Fixture.snapshot())
        let processes = try await self.snapshot("/v1/processes")
        #expect(processes.sockets == nil && processes.endpoints == nil)
        #expect(processes.processes?.count == 2 && processes.exited?.count == 1 && processes.interfaces?.count == 1)
        let sockets = try await self.snapshot("/v1/sockets?filter=port:22")
        #expect(sockets.sockets?.map(\.cookie.rawValue) == [1])
        #expect(sockets.processes == [Fixture.root])
        #expect(sockets.exited == nil && sockets.interfaces == nil && sockets.endpoints == nil)
        let endpoints = try await self.snapshot("/v1/endpoints?filter=process:web")
        #expect(endpoints.endpoints?.map(\.route) == ["/nobody"])
        #expect(endpoints.processes == nil && endpoints.sockets == nil && endpoints.exited == nil)
    }

    @Test("Exchanges are a document of their own, and a user sees only its own exchanges")
    func exchanges() async throws {
        var reading = Fixture.reading()
        reading.exchanges = Fixture.exchanges
        self.box.readings.publish(reading)
        func routes(_ query: String = "", as viewer: Viewer = .administrator) async throws -> [String] {
            let response = try await self.get("/v1/exchanges" + query, as: viewer)
            #expect(response.headers[.contentType] == "application/json")
            let body = Data(response.body.readableBytesView)
            return try JSONDecoder().decode(ExchangeReport.self, from: body).exchanges.map(\.route)
        }
        #expect(try await routes() == ["/root", "/nobody"])
        #expect(try await routes("?filter=process:web") == ["/nobody"])
        #expect(try await routes(as: .user(65_534)) == ["/nobody"])
        #expect(try await routes(as: .user(1)) == [])
        let lines = try await self.get("/v1/exchanges?format=ndjson")
        #expect(lines.headers[.contentType] == "application/x-ndjson")
        #expect(String(buffer: lines.body).split(separator: "\n").count == 2)
        try self.expectProblem(try await self.get("/v1/exchanges?format=xml"), .badRequest, parameter: "format")
        try self.expectProblem(try await self.get("/v1/exchanges", as: .network), .forbidden)
    }

    @Test("A user sees the endpoints of no other user")
    func endpointsOfUsers() async throws {
        #expect(try await self.snapshot("/v1/endpoints", as: .user(65_534)).endpoints?.map(\.route) == ["/nobody"])
        #expect(try await self.snapshot("/v1/snapshot", as: .user(65_534)).endpoints?.map(\.route) == ["/nobody"])
        #expect(try await self.snapshot("/v1/endpoints", as: .user(1)).endpoints == [])
    }

    @Test("Endpoints by host and by type are in no other view, and a user sees only its own")
    func endpointsByOthers() async throws {
        var reading = Fixture.reading()
        let groups = [Fixture.root, Fixture.nobody].map { ProcessGroup($0.details) }
        reading.groupedEndpoints = [
            .host: groups.map { EndpointUsage(process: $0, role: .client, subject: .host("of.\($0.name)")) },
            .type: groups.map { EndpointUsage(process: $0, role: .client, subject: .content(.json), requests: 7) },
        ]
        self.box.readings.publish(reading)
        let hosts = try await self.snapshot("/v1/endpoints?by=host").endpoints
        #expect(hosts?.map(\.subject) == [.host("of.sshd"), .host("of.web")])
        #expect(
            try await self.snapshot("/v1/endpoints?by=host&filter=process:web").endpoints?.map(\.host) == ["of.web"]
        )
        #expect(
            try await self.snapshot("/v1/endpoints?by=host", as: .user(65_534)).endpoints?.map(\.host) == ["of.web"]
        )
        let types = try await self.snapshot("/v1/endpoints?by=type", as: .user(65_534)).endpoints
        #expect(types?.map(\.contentClass) == [.json] && types?.map(\.requests) == [7])
        #expect(try await self.snapshot("/v1/endpoints?by=route").endpoints == reading.snapshot.endpoints)
        try self.expectProblem(try await self.get("/v1/endpoints?by=day"), .badRequest, parameter: "by")
        try self.expectProblem(try await self.get("/v1/processes?by=host"), .badRequest, parameter: "by")
    }

    @Test(
        "A filter may be encoded either way",
        arguments: ["filter=process:web%20port:80", "filter=process:web+port:80", "filter=process%3Aweb%09port%3A80"]
    )
    func filters(query: String) async throws {
        let seen = try await self.snapshot("/v1/snapshot?\(query)")
        #expect(seen.processes == [Fixture.nobody])
        #expect(seen.sockets?.map(\.cookie.rawValue) == [2])
        #expect(seen.totals.bytes == Fixture.nobody.bytes)
    }

    @Test("A filter that is too long is refused with its limit, for every viewer")
    func longFilters() async throws {
        let words = (0...64).map { "p\($0)" }.joined(separator: "+")
        for (filter, limit) in [(String(repeating: "x", count: 4097), "4096"), (words, "64")] {
            for path in ["/v1/snapshot", "/v1/stream", "/v1/exchanges"] {
                let response = try await self.get("\(path)?filter=\(filter)", as: .user(1))
                #expect(String(buffer: response.body).contains(limit))
                try self.expectProblem(response, .badRequest, parameter: "filter")
            }
        }
    }

    @Test("A filter on a socket selects processes, also where the answer has no sockets")
    func processesBySocket() async throws {
        let seen = try await self.snapshot("/v1/processes?filter=port:22")
        #expect(seen.processes == [Fixture.root])
        #expect(seen.sockets == nil)
    }

    @Test("A request for some processes' sockets leaves the rest complete, and the answer names the processes")
    func socketsOf() async throws {
        let whole = Fixture.snapshot()
        let seen = try await self.snapshot("/v1/snapshot?sockets_of=\(Fixture.root.identity.pid),99999")
        #expect(seen.socketsOf == [Fixture.root.identity.pid, 99_999].sorted())
        #expect(seen.sockets == whole.sockets?.filter { $0.owners.contains { $0.identity == Fixture.root.identity } })
        #expect(seen.sockets?.isEmpty == false && seen.sockets?.count != whole.sockets?.count)
        #expect(seen.processes == whole.processes && seen.totals == whole.totals)
        // The filter comes first and looks at all sockets of a process.
        let filtered = try await self.snapshot("/v1/snapshot?filter=port:80&sockets_of=\(Fixture.root.identity.pid)")
        #expect(filtered.processes == [Fixture.nobody])
        #expect(filtered.sockets == [])
        #expect(try await self.snapshot("/v1/processes?sockets_of=1").socketsOf == nil)
    }

    @Test("Formats have their media types and rows")
    func formats() async throws {
        let csv = try await self.get("/v1/snapshot?format=csv")
        #expect(csv.headers[.contentType] == "text/csv; charset=utf-8; header=present")
        #expect(String(buffer: csv.body).split(separator: "\r\n").count == 3)
        #expect(String(buffer: csv.body).hasPrefix("taken_at,host_name,pid,"))
        let sockets = try await self.get("/v1/sockets?format=csv")
        #expect(String(buffer: sockets.body).hasPrefix("taken_at,host_name,serial,cookie,"))
        let lines = try await self.get("/v1/snapshot?format=ndjson")
        #expect(lines.headers[.contentType] == "application/x-ndjson")
        #expect(
            String(buffer: lines.body).split(separator: "\n").count == 10,
            "totals, 2 processes, 1 exited, 3 sockets, 2 endpoints, 1 interface"
        )
    }

    @Test(
        "A bad parameter is named",
        arguments: [
            ("/v1/snapshot?filter=prot:tcp", "filter"), ("/v1/snapshot?format=xml", "format"),
            ("/v1/processes?filtre=x", "filtre"), ("/v1/stream?interval=0", "interval"),
            ("/v1/stream?interval=3601", "interval"), ("/v1/stream?interval=nan", "interval"),
            ("/v1/stream?view=all", "view"), ("/v1/stream?format=csv", "format"), ("/healthz?x", "x"),
            ("/v1/doctor?format=csv", "format"), ("/v1/doctor?cost", "cost"), ("/v1/doctor?cost=0.09", "cost"),
            ("/v1/doctor?cost=10.1", "cost"), ("/v1/doctor?cost=nan", "cost"), ("/v1/doctor?cost=2s", "cost"),
            ("/v1/doctor?cost=1&cost=1", "cost"), ("/v1/snapshot?filter=a&filter=b", "filter"),
            ("/v1/snapshot?filter=%ff", "filter"), ("/v1/snapshot?filter=%-0", "filter"),
            ("/v1/snapshot?filter=a%2", "filter"), ("/v1/snapshot?sockets_of=1,x", "sockets_of"),
            ("/v1/stream?sockets_of=", "sockets_of"), ("/v1/sockets?sockets_of=-1", "sockets_of"),
        ]
    )
    func parameters(path: String, name: String) async throws {
        try self.expectProblem(try await self.get(path), .badRequest, parameter: name)
    }

    @Test(
        "An unknown path is not found",
        arguments: [
            "/page", "/page/", "/v1", "/v1/", "/v1/endpoint", "/v1/history", "/v1/alarms", "/v1/audits", "/metric",
            "/v2/snapshot", "/v1/snapshot/x", "/%00", "/../etc/passwd",
        ]
    )
    func notFound(path: String) async throws {
        try self.expectProblem(try await self.get(path), .notFound)
    }

    @Test(
        "Other methods than GET and HEAD are refused",
        arguments: [.post, .put, .delete, .patch, .options, .trace] as [HTTPRequest.Method]
    )
    func methods(method: HTTPRequest.Method) async throws {
        let response = try await self.get("/v1/snapshot", method: method)
        try self.expectProblem(response, .methodNotAllowed)
        #expect(response.headers[.allow] == "GET, HEAD")
    }

    @Test("HEAD has the headers and no body", arguments: ["/healthz", "/v1/snapshot", "/v1/stream", "/nothing"])
    func head(path: String) async throws {
        let response = try await self.get(path, method: .head)
        #expect(response.body.readableBytes == 0)
        #expect(response.headers[.contentType] != nil)
        #expect(response.status == (path == "/nothing" ? .notFound : .ok))
    }

    @Test(
        "Before the first snapshot the service is unavailable",
        arguments: ["/healthz", "/v1/snapshot", "/v1/processes", "/v1/sockets", "/v1/doctor", "/v1/stream"]
    )
    func early(path: String) async throws {
        let router = ControlAPI.router(
            source: ReadingBox(),
            cost: self.meter,
            alerts: FakeAlerts(),
            access: .fixed(.administrator)
        )
        let response = try await Application(router: router).test(.router) { client in
            try await client.executeRequest(uri: path, method: .get, headers: [:], body: nil)
        }
        try self.expectProblem(response, .serviceUnavailable)
        #expect(response.headers[.retryAfter] == "1")
    }

    @Test("Doctor reports the capture and the checks")
    func doctor() async throws {
        let response = try await self.get("/v1/doctor", as: .user(1))
        let report = try JSONDecoder().decode(DoctorReport.self, from: Data(response.body.readableBytesView))
        #expect(report.capture == Fixture.snapshot().capture)
        #expect(report.checks == self.box.checks())
        #expect(report.cost == nil && self.meter.measurements == 0, "nobody asked")
    }

    @Test("A user's view holds for every format, and no filter reaches beyond it")
    func user() async throws {
        #expect(try await self.snapshot("/v1/snapshot", as: .user(65_534)).processes == [Fixture.nobody])
        #expect(try await self.snapshot("/v1/snapshot?filter=pid:10", as: .user(65_534)).processes == [])
        #expect(try await self.snapshot("/v1/sockets?filter=port:22", as: .user(65_534)).sockets == [])
        for format in ["json", "ndjson", "csv"] {
            for view in ["snapshot", "processes", "sockets"] {
                let response = try await self.get("/v1/\(view)?format=\(format)", as: .user(65_534))
                #expect(!String(buffer: response.body).contains("sshd"))
                #expect(!String(buffer: response.body).contains("123456"))
            }
        }
    }

    @Test("The TCP listener shows no command lines and no sockets, in answers or through filters")
    func network() async throws {
        for format in ["json", "ndjson", "csv"] {
            let response = try await self.get("/v1/snapshot?format=\(format)", as: .network)
            #expect(response.status == .ok)
            #expect(!String(buffer: response.body).contains("hunter2"))
            #expect(!String(buffer: response.body).contains("198.51.100.7"))
        }
        for path in ["/v1/sockets", "/v1/processes?filter=port:22", "/v1/stream?view=sockets"] {
            try self.expectProblem(try await self.get(path, as: .network), .forbidden)
        }
        #expect(try await self.snapshot("/v1/processes?filter=198.51", as: .network).processes == [])
    }

    @Test("A connection that has no credentials gets nothing")
    func noCredentials() async throws {
        let access = ControlAPI.Access.credentials(AccessRule(daemonUID: 0, group: nil))
        try self.expectProblem(try await self.request("/v1/snapshot", access: access), .forbidden)
    }

    @Test(
        "A TCP listener answers to addresses, to localhost and to the names that it was given",
        arguments: [
            ("127.0.0.1:10419", nil), ("127.0.0.1", nil), ("[::1]:10419", nil), ("[::1]", nil), ("[::1]:", nil),
            ("LOCALHOST:1", nil), ("192.0.2.1:80", nil), ("server1.example", nil), ("Server1.Example:10419", nil),
            ("evil.example:10419", .misdirectedRequest), ("localhost.evil.example", .misdirectedRequest),
            ("", .misdirectedRequest), ("[evil.example]", .misdirectedRequest), (":80", .misdirectedRequest),
            ("server1.example.evil.example", .misdirectedRequest), ("127.0.0.1.evil.example", .misdirectedRequest),
            // A name behind what looks like this host.
            ("[::1].evil.example", .badRequest), ("[::1]evil.example:80", .badRequest), ("[::1", .badRequest),
            ("127.0.0.1:80@evil.example", .badRequest), ("localhost:80:evil.example", .badRequest),
            ("localhost@evil.example", .badRequest), ("localhost:80/evil.example", .badRequest),
            ("localhost:\u{0661}", .badRequest), ("user@localhost", .badRequest),
        ] as [(String, HTTPResponse.Status?)]
    )
    func rebinding(authority: String, refusal: HTTPResponse.Status?) {
        #expect(Self.refusal(HostMiddleware(names: ["SERVER1.example"]), authority) == refusal)
    }

    @Test("On a Unix socket any name without a dot is the host, and a name that looks like two is none")
    func plainNames() {
        let middleware = HostMiddleware(names: [], takesPlainNames: true)
        #expect(Self.refusal(middleware, "trafficd") == nil)
        #expect(Self.refusal(middleware, "trafficd", isOfBrowser: true) == .misdirectedRequest)
        #expect(Self.refusal(middleware, "evil.example") == .misdirectedRequest)
        #expect(Self.refusal(middleware, "trafficd:80@evil") == .badRequest)
    }

    private static func refusal(
        _ middleware: HostMiddleware,
        _ authority: String,
        isOfBrowser: Bool = false
    ) -> HTTPResponse.Status? {
        do throws(Problem) {
            try middleware.check(authority, isOfBrowser: isOfBrowser)
            return nil
        } catch {
            return error.status
        }
    }
}
