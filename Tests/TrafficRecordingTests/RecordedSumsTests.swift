import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficModel
import TrafficQuery

@testable import TrafficRecording

extension AlertRule {
    fileprivate init(_ kind: Kind, named name: String, of filter: String = "") throws {
        self.init(name: name, filter: try AlertFilter(filter, for: kind.reported.reader), kind: kind)
    }
}

@Suite("History and alerts of a recording")
struct RecordedSumsTests {
    private func exited(_ name: String, uid: UInt32 = 1_000, sent: UInt64) -> ExitedUsage {
        ExitedUsage(
            group: ProcessGroup(name: name, uid: uid),
            processes: 1,
            bytes: ByteCounts(payload: PayloadBytes(sent: sent))
        )
    }

    private func sent(_ snapshots: [Snapshot]) throws -> [String: UInt64] {
        let history = try RecordedHistory(try recording(of: snapshots))
        let report = try history.report(HistoryQuestion(since: Timestamp(nanosecondsSinceEpoch: 0)))
        let rows = report.rows.map { ($0.name.process ?? "", $0.bytes.payload.sent) }
        #expect(report.totals.payload.sent == rows.reduce(0) { $0 + $1.1 })
        return Dictionary(uniqueKeysWithValues: rows)
    }

    @Test("what moved before the recording is not in it; what a process moved before it ended is in it once")
    func exits() throws {
        var snapshots = [
            Snapshot.made(at: 0, [.made("curl", pid: 5, sent: 1_000)], exited: [self.exited("curl", sent: 50)]),
            Snapshot.made(at: 1, [.made("curl", pid: 5, sent: 1_100), .made("wget", pid: 6, sent: 7)]),
            // One has ended, and its bytes come with the next snapshot.
            Snapshot.made(at: 70, [.made("wget", pid: 6, sent: 7)], exited: [self.exited("curl", sent: 50)]),
            Snapshot.made(at: 130, [], exited: [self.exited("curl", sent: 1_175), self.exited("_other", sent: 9)]),
        ]
        snapshots[2].totals = snapshots[1].totals
        #expect(try self.sent(snapshots)["curl"] == 125)
        #expect(try self.sent(snapshots)["wget"] == 7)
        #expect(try self.sent(snapshots)["_other"] == 2)
    }

    @Test("a group whose life ends brings its bytes to the rest of its user, where they count no second time")
    func endedLife() throws {
        let snapshots = [
            Snapshot.made(at: 0, exited: [self.exited("curl", sent: 50), self.exited("_other", sent: 5)]),
            Snapshot.made(at: 10, exited: [self.exited("curl", sent: 57), self.exited("_other", sent: 5)]),
            Snapshot.made(at: 20, exited: [self.exited("_other", sent: 5 + 57 + 10)]),
            // Another life, which begins at 0.
            Snapshot.made(at: 30, exited: [self.exited("curl", sent: 3), self.exited("_other", sent: 72)]),
        ]
        #expect(try self.sent(snapshots) == ["curl": 7 + 3, "_other": 10])
    }

    @Test("a daemon that counts anew adds its own bytes, and none twice")
    func newCount() throws {
        let snapshots = [
            Snapshot.made(at: 0, [.made("curl", pid: 5, sent: 5_000)]),
            Snapshot.made(at: 10, [.made("curl", pid: 5, sent: 5_010)]),
            Snapshot.made(at: 30, countingSince: 20, [.made("curl", pid: 5, sent: 3)]),
            Snapshot.made(at: 40, countingSince: 20, [.made("curl", pid: 5, sent: 8)]),
        ]
        #expect(try self.sent(snapshots) == ["curl": 18])
    }

    @Test("an interface has what it counted between the snapshots, and no more than that at another count")
    func interfaces() throws {
        func made(_ second: Double, since: Double, _ interfaces: [(String, UInt64)]) -> Snapshot {
            var snapshot = Snapshot.made(at: second, countingSince: since)
            snapshot.interfaces = interfaces.map { InterfaceUsage(name: $0.0, sentBytes: $0.1, receivedBytes: 3) }
            return snapshot
        }
        let snapshots = [
            made(0, since: -9, [("eth0", 5_000)]),
            // One is new, and as old as its counters.
            made(10, since: -9, [("eth0", 5_011), ("veth1", 40)]),
            // Counters that fell add nothing, and count from there on.
            made(20, since: -9, [("eth0", 7), ("veth1", 41)]),
            made(30, since: -9, [("eth0", 9)]),
            made(50, since: 40, [("eth0", 900), ("veth1", 80)]),
            made(60, since: 40, [("eth0", 1_000), ("veth1", 80)]),
        ]
        let history = try RecordedHistory(try recording(of: snapshots))
        let since = Timestamp(nanosecondsSinceEpoch: 0)
        let rows = try history.report(HistoryQuestion(since: since, by: [.interface])).rows
        let sent = Dictionary(uniqueKeysWithValues: rows.map { ($0.name.interface ?? "", $0.amounts.sum.sent) })
        #expect(sent == ["eth0": 11 + 2 + 100, "veth1": 41])
    }

    @Test("a clock that is put back or forward loses and makes no byte")
    func clock() throws {
        var snapshots = (0..<300).map { second in
            Snapshot.made(at: Double(second), [.made("curl", pid: 5, sent: UInt64(second) * 1_001)])
        }
        for index in 100..<200 {
            let nanoseconds = snapshots[index].takenAt.nanosecondsSinceEpoch - 3_600_000_000_000
            snapshots[index].takenAt = Timestamp(nanosecondsSinceEpoch: nanoseconds)
        }
        let history = try RecordedHistory(try recording(of: snapshots))
        let since = Timestamp(nanosecondsSinceEpoch: snapshots[100].takenAt.nanosecondsSinceEpoch)
        let report = try history.report(HistoryQuestion(since: since))
        #expect(report.totals.payload.sent == 299 * 1_001)
    }

    @Test("rules are judged by the times of the recording, over a pause of the daemon too")
    func alerts() throws {
        let rate = try AlertRule(.rate(bytesPerSecond: 1_000_000, seconds: 60), named: "uplink", of: "process:rsync")
        var (sent, snapshots): (UInt64, [Snapshot]) = (0, [])
        for second in stride(from: 0, to: 600, by: 5) {
            if 120..<300 ~= second { sent += 10_000_000 }
            snapshots.append(
                Snapshot.made(
                    at: Double(second),
                    [.made("rsync", pid: 9, sent: sent), .made("nginx", pid: 8, sent: UInt64(second) * 9_000_000)]
                )
            )
        }
        let judged = try RecordedAlerts([rate], over: try recording(of: snapshots))
        let seconds = judged.events.map { event in
            (event.time.nanosecondsSinceEpoch / 1_000_000_000) - Snapshot.began
        }
        try #require(judged.events.count == 2)
        #expect((180...195).contains(seconds[0]) && (300...365).contains(seconds[1]))
        #expect(judged.events[0].change.alert.process?.name == "rsync" && judged.alerts.isEmpty)
        // A new count begins at 0: its numbers are no rate.
        let restarted = snapshots.map { snapshot in
            var snapshot = snapshot
            if snapshot.takenAt > snapshots[40].takenAt { snapshot.countingSince = snapshots[40].takenAt }
            return snapshot
        }
        let other = try RecordedAlerts([rate], over: try recording(of: restarted))
        #expect(other.events.first?.change.alert.process?.name == "rsync")
        #expect(other.events.allSatisfy { $0.change.alert.bytes <= 360_000_000 })
    }

    @Test("a timer that leaks is found from the endpoints, and what needs history is said to be unjudged")
    func endpoints() throws {
        let group = ProcessGroup(name: "app", uid: 1_000)
        let every = try AlertRule(.requestsEvery(seconds: 15), named: "line", of: "route:/line")
        let month = try AlertRule(.bytes(1, per: .month), named: "month")
        let new = try AlertRule(.newDestination(learningSeconds: 3_600), named: "new")
        var (requests, snapshots): (UInt64, [Snapshot]) = (1_000, [])
        for second in stride(from: 0, to: 900, by: 5) {
            let timers = second < 300 ? 1 : 1 + (second - 300) / 60
            if second % 15 == 0 { requests += UInt64(timers) }
            var usage = EndpointUsage(
                process: group,
                role: .client,
                subject: .route(host: "api.example", route: "/line")
            )
            (usage.requests, usage.responses) = (requests, requests)
            usage.outcomes = [.ok: requests]
            snapshots.append(Snapshot.made(at: Double(second), endpoints: [usage]))
        }
        let judged = try RecordedAlerts([every, month, new], over: try recording(of: snapshots))
        #expect(judged.unjudged == [month, new])
        let began = try #require(judged.events.first)
        let second = began.time.nanosecondsSinceEpoch / 1_000_000_000 - Snapshot.began
        #expect((360...540).contains(second) && began.change.alert.route == "/line")
    }
}
