import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficView

@Suite("The table of alerts")
struct AlertTableTests {
    private static let time = Timestamp(nanosecondsSinceEpoch: 0)
    private static let report = AlertReport(
        host: "h",
        takenAt: Self.time,
        rules: 3,
        alerts: [
            Alert(
                rule: "line",
                kind: .failures,
                process: ProcessGroup(name: "app", uid: 1_000),
                user: "web",
                role: .client,
                host: "api.example",
                route: "/line",
                since: Self.time,
                bytes: 1_000_000,
                bytesPerSecond: 1_000,
                requestsPerSecond: 0.5,
                failedShare: 0.25
            ),
            Alert(
                rule: "same",
                kind: .repeated,
                process: ProcessGroup(name: "app", uid: 1_000),
                user: "web",
                role: .client,
                host: "api.example",
                route: "/list",
                since: Self.time,
                requestsPerSecond: 1,
                repeatedShare: 1
            ),
            Alert(
                rule: "usual",
                kind: .requestsOverPast,
                process: ProcessGroup(name: "app", uid: 1_000),
                user: "web",
                role: .client,
                host: "api.example",
                route: "/list",
                since: Self.time,
                requestsPerSecond: 1,
                pastRequestsPerSecond: 0.125
            ),
            Alert(
                rule: "month",
                kind: .bytes,
                match: "user:web",
                since: Self.time,
                bytes: 400,
                limitBytes: 500,
                stepRatio: 0.8,
                projectedBytes: 612_000
            ),
            Alert(
                rule: "new",
                kind: .newDestination,
                process: ProcessGroup(name: "app", uid: 1_000),
                user: "web",
                destination: "192.0.2.0/24",
                since: Self.time,
                bytes: 70,
                bytesPerSecond: 7
            ),
        ]
    )

    private static func lines(width: Int?) -> [String] {
        Table.alerts(Self.report, units: .bytes, time: { _ in "2026-11-25 14:30" })
            .frame(width: width, typeface: .ascii, units: .bytes).plainText.split(separator: "\n").map(String.init)
    }

    @Test("a row says who, where, since when, how much, and what it comes to")
    func rows() {
        let rows = Self.lines(width: nil).map { $0.split(separator: " ").joined(separator: " ") }
        #expect(
            rows == [
                "RULE PROCESS USER ENDPOINT SINCE RATE/S REQ/MIN SO FAR 30 DAYS",
                "line app web api.example /line 2026-11-25 14:30 1.00 kB 30.0 1.00 MB 2.59 GB 25 % failed",
                "same app web api.example /list 2026-11-25 14:30 0 B 60.0 0 B 0 B 100 % repeated",
                "usual app web api.example /list 2026-11-25 14:30 0 B 60.0 0 B 0 B at most 7.5 a minute before",
                "month user:web - - 2026-11-25 14:30 0 B - 400 B 0 B 80 % of 500 B, 612 kB at the end",
                "new app web 192.0.2.0/24 2026-11-25 14:30 7 B - 70 B 18.1 MB -",
            ]
        )
    }

    @Test("numbers that no daemon sends are printed all the same", arguments: [1e300, -1e300])
    func hostile(_ number: Double) {
        func alert(_ change: (inout Alert) -> Void) -> Alert {
            var alert = Alert(rule: "r", kind: .bytes, since: Self.time, bytesPerSecond: number)
            change(&alert)
            return alert
        }
        let alerts = [
            alert { ($0.limitBytes, $0.stepRatio) = (1, number) },
            alert { ($0.requestsPerSecond, $0.pastRequestsPerSecond) = (number, number) },
            alert { $0.failedShare = number },
        ]
        let report = AlertReport(host: "h", takenAt: Self.time, rules: 1, alerts: alerts)
        let table = Table.alerts(report, units: .bytes, time: { _ in "then" })
            .frame(width: nil, typeface: .ascii, units: .bytes).plainText
        #expect(table.split(separator: "\n").count == 4)
        #expect(alerts.allSatisfy { $0.description.hasPrefix("r since ") })
    }

    @Test("80 columns are enough for the endpoint, the rate and the time")
    func narrow() {
        let lines = Self.lines(width: 80)
        #expect(lines.allSatisfy { $0.count <= 80 } && lines[1].contains("/line") && lines[1].contains("2.59 GB"))
    }
}
