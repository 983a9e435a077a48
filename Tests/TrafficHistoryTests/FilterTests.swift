import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

@Suite("A filter on history")
struct HistoryFilterTests {
    private static var now: Int64 { HistoryStoreTests.now }
    private static let (web, shop) = (HistoryStoreTests.web, HistoryStoreTests.shop)
    private static let box = ProcessGroup(name: "node", executable: "/opt/api/bin/node", containerID: "c0ffee", uid: 33)

    /// Two hours: the web server moves 10 + 10, the shop 3 + 200, the container 1 + 0.
    private static func store(_ folder: Folder) throws -> HistoryStore {
        let store = try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
        try store.add(.made(at: self.now, [self.web: .sent(10, 1), self.shop: .sent(3), self.box: .sent(1)]))
        try store.add(.made(at: self.now + 3_600, [self.web: .sent(10), self.shop: .sent(200)]))
        return store
    }

    private static func report(
        _ store: HistoryStore,
        _ filter: String,
        by: [HistoryDimension] = [.process],
        bucket: HistoryLevel? = nil,
        top: Int = 100,
        uid: UInt32? = nil
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
        return try store.report(question, host: "h", now: self.now + 7_200) { $0 == 33 ? "www-data" : nil }
    }

    @Test(
        "names select processes, whatever the rows are divided by, and amounts select rows",
        arguments: [
            ("process:nginx", [.process], ["nginx"], 20), ("process:/opt/API", [.process], ["node"], 1),
            ("nginx", [.process], ["nginx"], 20), ("-nginx", [.process], ["python3", "node"], 204),
            ("user:www-data", [.process], ["nginx", "node"], 21), ("user:33", [.process], ["nginx", "node"], 21),
            ("user:1000,33", [.process], ["python3", "nginx", "node"], 224),
            ("www-dat", [.process], ["nginx", "node"], 21),
            ("unit:shop", [.process], ["python3"], 203), ("container:c0ff", [.process], ["node"], 1),
            ("tx>20", [.process], ["python3"], 203), ("tx>=20", [.process], ["python3", "nginx"], 223),
            ("rx>0", [.process], ["nginx"], 20), ("user:33 total<5", [.process], ["node"], 1),
            ("process:node,nginx", [.user], ["33"], 21), ("process:nothing", [.process], [], 0),
            ("process:nginx tx>1000", [.process], [], 0), ("tx>100", [.scope], ["lan"], 224),
            ("tx>1000", [.scope], [], 0), ("unit:shop", [.total], [""], 203), ("-user:nobody", [.total], [""], 224),
        ] as [(String, [HistoryDimension], [String], UInt64)]
    )
    func rows(filter: String, by: [HistoryDimension], names: [String], sent: UInt64) throws {
        let report = try Self.report(try Self.store(try Folder()), filter, by: by)
        let rows = report.rows.map { row in
            if let uid = row.name.uid { return "\(uid)" }
            return row.name.process ?? row.name.scope ?? ""
        }
        #expect(rows == names)
        // The sums are of what passes, as in the other lists.
        #expect(report.totals.payload.sent == sent)
        #expect(report.countedSeconds == 120)
    }

    @Test("an amount is that of a row of its bucket, and the limit counts what passes alone")
    func order() throws {
        let store = try Self.store(try Folder())
        let hours = try Self.report(store, "tx>5", bucket: .hour)
        #expect(hours.rows.map(\.bytes.payload.sent) == [10, 200, 10])
        let top = try Self.report(store, "-process:python3", top: 1)
        #expect(top.rows.map(\.name.process) == ["nginx"] && top.others?.bytes == .sent(1) && top.othersCount == 1)
        // The total of some processes has no sums of 5 minutes.
        #expect(try Self.report(store, "process:nginx", by: [.total], bucket: .minute).rows.count == 2)
        #expect(throws: HistoryWordError.self) {
            try Self.report(store, "process:nginx", by: [.total], bucket: .fiveMinutes)
        }
        #expect(try Self.report(store, "tx>5", by: [.total], bucket: .fiveMinutes).rows.count == 2)
    }

    @Test("a user learns nothing of others, whatever the filter")
    func viewers() throws {
        let store = try Self.store(try Folder())
        for filter in [
            "", "process:nginx,python3,node", "user:33", "-user:1000", "tx>=0", "unit:nginx", "-x", "www-data",
        ] {
            for by in [[HistoryDimension.process], [.user], [.unit], [.container]] {
                let report = try Self.report(store, filter, by: by, uid: 1_000)
                let ours = ["", "process:nginx,python3,node", "tx>=0", "-x"].contains(filter)
                #expect(report.totals == (ours ? .sent(203) : ByteCounts()), "\(filter)")
                #expect(report.rows.count == (ours ? 1 : 0), "\(filter)")
            }
        }
        var asked: [UInt32] = []
        let filter = try HistoryFilter("user:x")
        let question = HistoryQuestion(since: Timestamp(seconds: 0), filter: filter, uid: 1_000)
        _ = try store.report(question, host: "h", now: Self.now + 7_200) {
            asked.append($0)
            return nil
        }
        // No other user's name is looked up, so the time of an answer tells nothing of them either.
        #expect(asked == [1_000])
    }

    @Test("a filter of so many groups that their ids are a long list")
    func many() throws {
        let folder = try Folder()
        let store = try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
        for minute in 0..<20 as Range<Int64> {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for index in 0..<100 { groups[ProcessGroup(name: "p\(minute)-\(index)", uid: 1)] = .sent(1) }
            try store.add(.made(at: Self.now + minute * 60, groups))
        }
        #expect(try Self.report(store, "process:p", by: [.user]).totals == .sent(2_000))
        #expect(try Self.report(store, "process:p7-", by: [.user]).totals == .sent(100))
    }
}
