import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficHistory

@Suite("The past of endpoints in history")
struct PastTests {
    private static let line = ServiceEndpoint.made("/line", uid: 1_000)
    private static let other = ServiceEndpoint.made("/line", uid: 1_001)

    @Test("it is the hour with the most requests, of 8 days up to an hour ago, and another program finds the same")
    func most() async throws {
        let folder = try Folder()
        let store = try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
        // 10:30, so the hour from 8 to 9 is the last of the past.
        let now = HistoryStoreTests.now + 1_800
        let until = HistoryStoreTests.now - 3_600
        var random = Seeded(3)
        var minutes: [HistoryMinute] = []
        for minute in stride(from: until - 9 * 86_400, to: now, by: 600) {
            var endpoints = [Self.other: 1_000_000 as UInt64]
            // The most come before 8 days ago, and in the hour that is judged.
            let isOfPast = until - 8 * 86_400 <= minute && minute < until
            endpoints[Self.line] = isOfPast ? .random(in: 1...1_000, using: &random) : 100_000
            minutes.append(.requests(at: minute, endpoints))
        }
        for minute in minutes { try store.add(minute) }
        let past = try #require(try store.pasts(of: [Self.line, Self.other], now: now)[Self.line])
        #expect(past.until == Timestamp(seconds: until))
        #expect(past.since == Timestamp(seconds: until - 8 * 86_400))
        let found = try await sums(
            folder,
            """
            SELECT max(requests) FROM endpoint_hours JOIN series ON series = id
            WHERE uid = 1000 AND time * 60 >= \(until - 8 * 86_400) AND time * 60 < \(until)
            """
        )
        let hours = Dictionary(grouping: minutes) { $0.time / 3_600 }.filter { hour, _ in
            until - 8 * 86_400 <= hour * 3_600 && hour * 3_600 < until
        }
        let most = hours.values.map { minutes in
            minutes.reduce(0 as UInt64) { sum, minute in
                guard case .messages(let counts) = minute.sums[.endpoint(Self.line)] else { return sum }
                return sum + counts.requests
            }
        }.max()
        #expect(past.mostRequests == most && found == "\(past.mostRequests)\n")
    }

    @Test("what history does not know has no past")
    func unknown() throws {
        let folder = try Folder()
        let store = try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
        let (now, until) = (HistoryStoreTests.now, Timestamp(seconds: HistoryStoreTests.now - 3_600))
        let none = EndpointPast(since: until, until: until, mostRequests: 0)
        #expect(try store.pasts(of: [Self.line], now: now) == [Self.line: none])
        // Only of the hour that is judged.
        try store.add(.requests(at: now - 60, [Self.line: 5]))
        #expect(try store.pasts(of: [Self.line], now: now) == [Self.line: none])
    }
}
