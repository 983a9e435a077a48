import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel
import TrafficQuery

@testable import TrafficAPI

/// Keeps the questions that come.
private final class FakeHistory: HistorySource {
    let questions = Mutex<[HistoryQuestion]>([])
    let months = Mutex<[MonthQuestion]>([])
    let refusal: HistoryRefusal?

    init(refusal: HistoryRefusal? = nil) { self.refusal = refusal }

    func answer(_ question: HistoryQuestion) async throws -> HistoryReport {
        self.questions.withLock { $0.append(question) }
        if let refusal { throw refusal }
        return HistoryReport(
            host: "h",
            since: question.since,
            until: question.until ?? question.since,
            level: .day,
            by: question.by,
            rows: [HistoryRow(name: HistoryName(process: "nginx"), bytes: ByteCounts(payload: PayloadBytes(sent: 5)))]
        )
    }
}

extension FakeHistory {
    func answer(_ question: MonthQuestion) async throws -> MonthReport {
        self.months.withLock { $0.append(question) }
        if let refusal { throw refusal }
        let month = try #require(CalendarMonth(year: 2026, month: 11))
        let time = Timestamp(nanosecondsSinceEpoch: 0)
        return MonthReport(host: "h", month: month, since: time, until: time)
    }
}

@Suite("The route of history")
struct HistoryRouteTests {
    private func get(
        _ query: String,
        from history: FakeHistory?,
        as viewer: Viewer = .administrator
    ) async throws -> (status: Int, body: String) {
        let router = ControlAPI.router(
            source: ReadingBox(),
            cost: FakeMeter(),
            history: history,
            alerts: FakeAlerts(),
            access: .fixed(viewer)
        )
        return try await Application(router: router).test(.router) { client in
            let answer = try await client.executeRequest(
                uri: "/v1/history" + query,
                method: .get,
                headers: [:],
                body: nil
            )
            return (answer.status.code, String(buffer: answer.body))
        }
    }

    /// The question that a query asks.
    private func question(_ query: String, as viewer: Viewer = .administrator) async throws -> HistoryQuestion {
        let history = FakeHistory()
        let answer = try await self.get(query, from: history, as: viewer)
        #expect(answer.status == 200)
        return try #require(history.questions.withLock { $0.first })
    }

    @Test("a query says the time, the buckets, the words and the rows")
    func questions() async throws {
        let begin = Timestamp(nanosecondsSinceEpoch: 1_793_491_200_000_000_000)
        #expect(try await self.question("") == HistoryQuestion(since: Timestamp(nanosecondsSinceEpoch: 0)))
        let since = "since=2026-11-01T00:00:00Z"
        #expect(try await self.question("?\(since)").since == begin)
        #expect(try await self.question("?since=2026-11-01T00%3A00%3A00.000Z").since == begin)
        let all = try await self.question("?\(since)&until=2026-11-02T00:00:00Z&bucket=day&by=user,process&limit=3")
        #expect(all.until?.nanosecondsSinceEpoch == begin.nanosecondsSinceEpoch + 86_400_000_000_000)
        #expect(try await self.question("?bucket=5minute&by=total").bucket == .fiveMinutes)
        let filter = try await self.question("?filter=process%3Anginx+rx%3E1M").filter
        #expect(filter == (try HistoryFilter("process:nginx rx>1M")) && filter.hasNames)
        #expect(try await self.question("?by=scope&filter=rx%3E1M").filter.hasNames == false)
        #expect(try await self.question("?by=route").by == [.host, .route])
        #expect(try await self.question("?by=unit,route,host").by == [.unit, .route, .host])
        #expect(try await self.question("?by=interface&bucket=5minute").by == [.interface])
        let endpoints = try await self.question("?by=total&filter=host%3Aapi+route%3A/x")
        #expect(endpoints.isOfEndpoints && endpoints.filter.hasEndpoints && endpoints.filter.hasNames)
        #expect(all.bucket == .day && all.by == [.user, .process] && all.top == 3 && all.uid == nil)
    }

    @Test("a user asks for own bytes alone, and not for sums of all users")
    func viewers() async throws {
        #expect(try await self.question("?by=unit&filter=user:8", as: .user(7)).uid == 7)
        #expect(try await self.question("?by=total", as: .user(7)).by == [.user])
        #expect(try await self.question("?by=route&filter=host:a", as: .user(7)).uid == 7)
        #expect(try await self.get("", from: FakeHistory(), as: .network).status == 403)
        for query in ["by=scope", "by=class", "by=interface", "by=total&bucket=5minute"] {
            let history = FakeHistory()
            #expect(try await self.get("?\(query)", from: history, as: .user(7)).status == 403)
            #expect(history.questions.withLock { $0.isEmpty })
        }
    }

    @Test(
        "a query that makes no sense is refused with the parameter's name",
        arguments: [
            "since=yesterday", "until=1", "since=2026-11-02T00:00:00Z&until=2026-11-01T00:00:00Z", "bucket=week", "by=",
            "bucket=5minute", "bucket=5minute&by=unit",
            "filter=pid:1", "filter=-", "by=scope&filter=nginx", "bucket=5minute&by=total&filter=nginx",
            "by=host&bucket=5minute", "by=total&bucket=5minute&filter=host:a", "by=host,interface", "by=scope,route",
            "by=interface&filter=host:a", "by=pid", "by=process,process", "by=process,scope", "limit=0", "limit=10001",
            "limit=x", "days=3",
            "format=xml",
        ]
    )
    func senseless(query: String) async throws {
        let history = FakeHistory()
        let answer = try await self.get("?" + query, from: history)
        #expect(answer.status == 400 && answer.body.contains("\"parameter\":"))
        #expect(history.questions.withLock { $0.isEmpty })
    }

    @Test("without history, with one that can't be read, and with too long an answer there is advice")
    func refusals() async throws {
        let none = try await self.get("", from: nil)
        #expect(none.status == 404 && none.body.contains("--state-directory"))
        let broken = try await self.get("", from: FakeHistory(refusal: .unavailable("the disk is gone")))
        #expect(broken.status == 503 && broken.body.contains("the disk is gone"))
        let long = try await self.get("", from: FakeHistory(refusal: .tooLong("take less")))
        #expect(long.status == 400 && long.body.contains("take less"))
    }

    @Test("the answer comes in each format", arguments: ["json", "ndjson", "csv", "tsv"])
    func formats(format: String) async throws {
        let answer = try await self.get("?format=\(format)", from: FakeHistory())
        #expect(answer.status == 200 && answer.body.contains("nginx"))
    }

    @Test("a month's query says the month, the part and the rate")
    func months() async throws {
        let history = FakeHistory()
        for (query, question) in [
            ("", MonthQuestion()), ("?scope=internet", MonthQuestion(part: .scope(.internet))),
            (
                "?month=2026-10&class=paid&exceeding=100000000",
                MonthQuestion(month: CalendarMonth(year: 2026, month: 10), part: .class("paid"), exceeding: 100_000_000)
            ),
        ] {
            #expect(try await self.get("/month" + query, from: history).status == 200)
            #expect(history.months.withLock { $0.last } == question)
        }
        for format in ["json", "ndjson", "csv", "tsv"] {
            let answer = try await self.get("/month?format=\(format)", from: history)
            #expect(answer.status == 200 && answer.body.contains("2026-11"))
        }
    }

    @Test(
        "a month's query that makes no sense is refused with the parameter's name",
        arguments: [
            "month=2026", "month=2026-13", "month=", "exceeding=0", "exceeding=-1", "exceeding=100M", "scope=far",
            "scope=lan&class=paid", "by=process", "since=2026-11-01T00:00:00Z",
        ]
    )
    func senselessMonth(query: String) async throws {
        let history = FakeHistory()
        let answer = try await self.get("/month?" + query, from: history)
        #expect(answer.status == 400 && answer.body.contains("\"parameter\":"))
        #expect(history.months.withLock { $0.isEmpty })
    }

    @Test("the report of a month is of all users, and so not for each")
    func monthViewers() async throws {
        let history = FakeHistory()
        #expect(try await self.get("/month", from: history, as: .user(7)).status == 403)
        #expect(try await self.get("/month", from: history, as: .network).status == 403)
        #expect(history.months.withLock { $0.isEmpty })
        let none = try await self.get(
            "/month?month=2020-01",
            from: FakeHistory(refusal: .notKept("nothing of 2020-01"))
        )
        #expect(none.status == 404 && none.body.contains("nothing of 2020-01"))
        #expect(try await self.get("/month", from: nil).body.contains("--state-directory"))
    }
}
