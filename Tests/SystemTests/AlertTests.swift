import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// A daemon with rules, and traffic that breaks them.
    @Suite(.needsBPF, .needs("python3", "curl"))
    struct AlertTests {
        /// A daemon whose configuration file has these rules.
        static func withRules(
            _ rules: String,
            arguments: [String] = [],
            _ body: (Daemon, String) async throws -> Void
        ) async throws {
            let file = temporaryPath("ta", ".yaml")
            defer { unlink(file) }
            try Self.write(rules, to: file)
            let daemon = try await Daemon(Machine.programs, configuration: file, arguments: arguments)
            do {
                try await body(daemon, file)
            } catch {
                try? await finish(daemon)
                throw error
            }
            try await finish(daemon)
        }

        private static func write(_ rules: String, to file: String) throws {
            try "interval: 500ms\nalerts:\n\(rules)\n".write(toFile: file, atomically: false, encoding: .utf8)
            chmod(file, 0o600)
        }

        private static func alerts(
            _ daemon: Daemon,
            _ arguments: String...
        ) async throws -> (code: Int32, output: String, error: String) {
            let place = ["--runtime-directory", daemon.directories.runtime.path]
            let result = try await Program.run(Machine.programs.client, ["alerts"] + arguments + place)
            return (result.code, String(decoding: result.output, as: UTF8.self), result.error)
        }

        static func report(_ daemon: Daemon) async throws -> AlertReport {
            let answer = try await daemon.get("/v1/alerts")
            return try JSONDecoder().decode(AlertReport.self, from: answer.output)
        }

        /// Writes a line for each change of an alert from now on.
        private static func follower(_ daemon: Daemon) async throws -> Program {
            let socket = daemon.directories.controlSocket.path
            let program = try Program(
                try #require(Machine.path(of: "curl")),
                ["-sN", "--unix-socket", socket, "http://localhost/v1/alerts/changes"]
            )
            // The first line says that it follows.
            _ = try #require(try await program.line(), "\(program.errorText)")
            return program
        }

        /// Waits until the alerts are as wanted.
        static func wait(
            _ daemon: Daemon,
            _ isWanted: (AlertReport) -> Bool,
            doing body: () async throws -> Void = { try await Task.sleep(for: .milliseconds(200)) }
        ) async throws -> AlertReport {
            try await look(every: .zero, until: { isWanted($0) }) {
                let report = try await Self.report(daemon)
                if !isWanted(report) { try await body() }
                return report
            }
        }

        /// What `see` returns while one alert is in force. On a busy machine nothing may move for so long that the alert
        /// ends meanwhile, and another begins. Then this looks again.
        private static func during<Seen>(_ daemon: Daemon, _ see: (Alert) async throws -> Seen) async throws -> Seen {
            let seen = try await look(every: .zero, until: { $0 != nil }) { () -> Seen? in
                let before = try await Self.wait(daemon) { !$0.alerts.isEmpty }.alerts
                let answer = try await see(try #require(before.first, "\(daemon.program.errorText)"))
                let after = try await Self.report(daemon).alerts
                return after.map(\.since) == before.map(\.since) ? answer : nil
            }
            return try #require(seen, "no alert stays as it is: \(daemon.program.errorText)")
        }

        @Test("a rate above a rule begins and ends an alert, which the log, trafficctl, the API and top say")
        func rate() async throws {
            let mover = try Mover()
            let name = mover.name
            let rules = """
                  - {name: \(name), match: "process:\(name)", rate: 1k, for: 5s}
                  - {name: never, rate: 1T, for: 5s}
                """
            try await Self.withRules(rules) { daemon, file in
                #expect(try await Self.alerts(daemon, "--check").code == 0)
                let follower = try await Self.follower(daemon)
                try await mover.keepMoving(100_000)
                let report = try await Self.wait(daemon) { !$0.alerts.isEmpty }
                let alert = try #require(report.alerts.first, "\(daemon.program.errorText)")
                #expect(report.rules == 2 && report.alerts.count == 1)
                #expect(alert.rule == name && alert.process?.name == name && alert.process?.uid == getuid())
                #expect(alert.bytesPerSecond > 1_000)

                let (check, plain, csv, active) = try await Self.during(daemon) { _ in
                    (
                        try await Self.alerts(daemon, "--check"), try await Self.alerts(daemon),
                        try await Self.alerts(daemon, "--format", "csv"), try await daemon.snapshot().alertsActive
                    )
                }
                #expect(check.code == 1 && check.output.contains(name) && check.error.isEmpty)
                #expect(plain.code == 0)
                let lines = csv.output.split(separator: "\r\n")
                #expect(lines.count == 2 && lines[0].hasPrefix("rule,kind,match,process_name,"))
                #expect(active == 1)
                // The log comes last.
                let isLogged = try await eventually {
                    daemon.program.errorText.contains("warning trafficd: [trafficd] alert \(name): \(name) of user")
                }
                #expect(isLogged)

                // A reload that changes the other rule leaves the alert as it is.
                var reloads = 0
                try await Self.during(daemon) { alert in
                    reloads += 1
                    try Self.write(rules.replacing("never", with: "seldom\(reloads)"), to: file)
                    daemon.program.signal(SIGHUP)
                    let isRead = try await eventually {
                        try #require(daemon.program.isRunning, "\(daemon.program.errorText)")
                        return daemon.program.errorText.matches(of: /read again/).count == reloads
                    }
                    try #require(isRead)
                    // Until it has more bytes, or is over.
                    _ = try await Self.wait(daemon) { report in
                        report.alerts.first.map { $0.since != alert.since || $0.bytes > alert.bytes } ?? true
                    }
                }

                // An alert begins with the first byte and ends when nothing more has come for a while. So the alerts have
                // all bytes. There are several if a busy machine let the mover rest too long.
                try await mover.rest()
                var bytes: UInt64 = 0
                while bytes != mover.moved.total {
                    let line = try #require(try await follower.line(), "\(follower.errorText)")
                    let notice = try JSONDecoder().decode(AlertNotice.self, from: line)
                    #expect(notice.droppedBefore == 0)
                    guard notice.change == .ended else { continue }
                    bytes += try #require(notice.alert?.bytes)
                    try #require(bytes <= mover.moved.total)
                }

                #expect(try await Self.wait(daemon) { $0.alerts.isEmpty }.alerts.isEmpty)
                #expect(try await Self.alerts(daemon, "--check").code == 0)
                let isOver = try await eventually {
                    daemon.program.errorText.contains("notice trafficd: [trafficd] alert is over: \(name)")
                }
                #expect(isOver)
                #expect(try await daemon.snapshot().alertsActive == 0)
            }
        }

        @Test("requests beyond a period, failing requests and repeated responses raise alerts about their endpoint")
        func requests() async throws {
            try await Self.withRules(
                """
                  - {name: often, match: "route:/length", requests_every: 10s}
                  - {name: failing, match: "route:/status", failures: 50%, for: 5s}
                  - {name: elsewhere, match: "host:api.example", requests_every: 10s}
                  - {name: same, repeated: 90%, for: 5s}
                """
            ) { daemon, _ in
                let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                var requests: UInt64 = 0
                let report = try await Self.wait(daemon, { $0.alerts.count == 3 }) {
                    // Far more than declared, and than the 20 exchanges that must end within 5 s for a share.
                    _ = try await Curl.run([], (0..<100).map { "\(server.url)/length/\($0)" })
                    _ = try await Curl.run([], (0..<100).map { _ in "\(server.url)/status/503" })
                    requests += 100
                    try await Task.sleep(for: .milliseconds(500))
                }
                #expect(
                    report.alerts.map(\.rule).sorted() == ["failing", "often", "same"],
                    "\(daemon.program.errorText)"
                )
                let often = try #require(report.alerts.first { $0.rule == "often" })
                #expect(often.host == "127.0.0.1" && often.route == "/length/{id}" && often.role == .server)
                #expect(often.bytes > 0 && often.requestsPerSecond ?? 0 > 0.15 && often.failedShare == nil)
                let failing = try #require(report.alerts.first { $0.rule == "failing" })
                #expect(failing.route == "/status/{id}" && failing.failedShare == 1)
                let same = try #require(report.alerts.first { $0.rule == "same" })
                #expect(same.route == "/status/{id}" && same.repeatedShare == 1 && same.failedShare == nil)
                // What curl asked, and nothing else.
                func endpoints(_ snapshot: Snapshot) -> [EndpointUsage] {
                    snapshot.endpoints?.filter { $0.role == .server } ?? []
                }
                let snapshot = try await look(until: { snapshot in
                    let rows = endpoints(snapshot)
                    return rows.count == 2 && rows.allSatisfy { $0.outcomes.total == requests }
                }) {
                    try await daemon.snapshot()
                }
                #expect(endpoints(snapshot).count == 2)
                for row in endpoints(snapshot) {
                    let context: Comment = "\(row)\n\(snapshot.capture)"
                    #expect(row.outcomes.total == requests, context)
                    #expect(row.requests == requests && row.responses == requests, context)
                    #expect(row.repeated == (row.route == "/status/{id}" ? requests - 1 : 0), context)
                }
                try await server.stop()
            }
        }

        @Test("bytes of a month are those of history, and survive a restart")
        func budget() async throws {
            let directories = try DaemonDirectories()
            let state = directories.root.appending(path: "state").path
            // Other tests' programs have other names.
            let mover = try Mover()
            func rule(_ limit: UInt64) -> String {
                "  - {name: month, match: \"process:\(mover.name)\", bytes: \(limit), per: month, steps: [50%, 80%, 100%]}"
            }
            var (earlier, rules): (UInt64?, String) = (nil, rule(1_000))
            for limit in 0..<2 {
                // The second time, seven tenths are used.
                let limit = limit == 0 ? 1_000 : (earlier ?? 0) * 10 / 7
                rules = rule(limit)
                try await Self.withRules(rules, arguments: ["--state-directory", state]) { daemon, file in
                    if earlier == nil {
                        try await mover.tell("churn 1 50000")
                        _ = try await daemon.snapshot()
                        // A minute is in history when it is over. Other classes end it at once.
                        try Self.write(rules + "\nclasses: {ten: [10.0.0.0/8]}", to: file)
                        daemon.program.signal(SIGHUP)
                    }
                    let report = try await Self.wait(daemon) { !$0.alerts.isEmpty }
                    let alert = try #require(report.alerts.first, "\(daemon.program.errorText)")
                    let isUsedUp = limit == 1_000
                    #expect(alert.kind == .bytes && alert.limitBytes == limit)
                    #expect(alert.stepRatio == (isUsedUp ? 1 : 0.5))
                    #expect(try await Self.alerts(daemon, "--check").code == (isUsedUp ? 1 : 0))
                    #expect(alert.bytes >= earlier ?? 50_000 && alert.process == nil)
                    earlier = alert.bytes
                }
            }
            // Without history, there is nothing to judge.
            let file = temporaryPath("ta", ".yaml")
            defer { unlink(file) }
            try Self.write(rules, to: file)
            let run = try await Program.run(Machine.programs.daemon, ["run", "--config", file] + directories.arguments)
            let refusal = "rule 'month' needs history, and there is none: set state_directory"
            #expect(run.code == 78 && run.error.contains(refusal), "\(run.error)")
        }

        @Test("requests beyond the past that history has raise an alert, and an endpoint without a past none")
        func past() async throws {
            let directories = try DaemonDirectories()
            let state = directories.root.appending(path: "state").path
            let rules = "  - {name: usual, requests_over_past: 2x}\n  - {name: never, requests_over_past: 1000x}"
            for isFirst in [true, false] {
                try await Self.withRules(rules, arguments: ["--state-directory", state]) { daemon, _ in
                    let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                    let count = isFirst ? 1 : 100
                    _ = try await Curl.run([], (0..<count).map { "\(server.url)/length/\($0)" })
                    _ = try await Curl.run([], (0..<count).map { _ in "\(server.url)/status/200" })
                    if isFirst {
                        // What has not found its process when the daemon ends is in no history.
                        let endpoints = try await look(until: { $0.count > 1 }) {
                            try await daemon.snapshot().endpoints ?? []
                        }
                        #expect(endpoints.count == 2)
                    } else {
                        let report = try await Self.wait(daemon) { !$0.alerts.isEmpty }
                        #expect(report.alerts.count == 1, "\(daemon.program.errorText)")
                        let alert = try #require(report.alerts.first)
                        #expect(alert.rule == "usual" && alert.route == "/length/{id}" && alert.role == .server)
                        #expect(alert.pastRequestsPerSecond == 25.0 / 3_600)
                    }
                    try await server.stop()
                }
                guard isFirst else { break }
                // The first daemon is gone. Before it, each of 30 hours had up to 25 requests for one of the routes.
                let script = """
                    import sqlite3, sys, time
                    file = sqlite3.connect(sys.argv[1])
                    [(series,)] = file.execute("SELECT id FROM series WHERE kind = 4 AND route = '/length/{id}'")
                    now = int(time.time()) // 3600 * 60
                    for hour in range(3, 33):
                        at = now - 60 * hour
                        file.execute("INSERT INTO counted VALUES ('hour', ?, 3600, 0, ?, 0)", (at, at + 60))
                        file.execute("INSERT INTO endpoint_hours VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0)", (at, series, 25 - hour % 2))
                    file.commit()
                    """
                _ = try await Tool.run("python3", ["-c", script, state + "/history.sqlite"])
            }
        }

        @Test("a webhook does not feed itself: alerts about its own requests are in the log, and are not posted")
        func ownTraffic() async throws {
            let mover = try Mover()
            // A name of its own: other tests run trafficctl at the same time, and alerts about those are posted.
            let name = "hook-\(UUID().uuidString.prefix(8))"
            let rules = """
                  - {name: own, match: "process:\(name)", rate: 1, for: 5s}
                  - {name: others, match: "process:\(mover.name)", rate: 1, for: 5s}
                """
            try await Self.withRules(rules) { daemon, _ in
                let script = Documents.root.appending(path: "Tests/Tools/webhook/webhook.py").path
                let receiver = try Program(try #require(Machine.path(of: "python3")), [script, "0"])
                let port = String(decoding: try #require(try await receiver.line()), as: UTF8.self)
                let place = ["--runtime-directory", daemon.directories.runtime.path]
                let state = daemon.directories.root.appending(path: "position").path
                let webhook = ["--webhook", "http://127.0.0.1:\(port)/", "--state", state]
                let client = daemon.directories.root.appending(path: name)
                try FileManager.default.createSymbolicLink(at: client, withDestinationURL: Machine.programs.client)
                let program = try Program(client, ["alerts", "--follow"] + place + webhook)
                // Until both follow: the first change of this test is one that comes.
                let follower = try await Self.follower(daemon)
                let follows = try await eventually(every: .milliseconds(5)) {
                    try #require(program.isRunning, "\(program.errorText)")
                    return FileManager.default.fileExists(atPath: state)
                }
                try #require(follows)
                var seen: [String] = []
                // Each change of the mover is a request. Its bytes begin an alert, whose end comes when there is no further
                // one.
                while seen.filter({ $0 == "ended own" }).isEmpty {
                    if !seen.contains("began own") { try await mover.tell("churn 1 1000") }
                    let line = try #require(try await follower.line(), "\(follower.errorText)")
                    let notice = try JSONDecoder().decode(AlertNotice.self, from: line)
                    seen.append("\(notice.change.rawValue) \(notice.alert?.rule ?? "")")
                }
                // The last change of all: that of the mover, which is posted after any of its own would have been.
                while seen.last != "ended others" || !seen.contains("ended own") {
                    try await mover.tell("churn 1 1000")
                    let line = try #require(try await follower.line(), "\(follower.errorText)")
                    let notice = try JSONDecoder().decode(AlertNotice.self, from: line)
                    seen.append("\(notice.change.rawValue) \(notice.alert?.rule ?? "")")
                }
                var posted: [AlertNotice] = []
                let wanted = seen.filter { $0.hasSuffix(" others") }
                while posted.count < wanted.count {
                    let line = try #require(try await receiver.line(), "\(program.errorText)")
                    let request = try #require(try JSONSerialization.jsonObject(with: line) as? [String: Any])
                    let body = try #require(request["body"] as? String)
                    let notice = try JSONDecoder().decode(AlertNotice.self, from: Data(body.utf8))
                    // On a busy machine an answer may take 10 s. Then the change comes again.
                    let wasLate = program.errorText.contains("no answer within 10 s")
                    if wasLate, notice == posted.last, request["again"] as? Bool == true { continue }
                    #expect(notice.droppedBefore == 0)
                    posted.append(notice)
                }
                #expect(posted.map { "\($0.change.rawValue) \($0.alert?.rule ?? "")" } == wanted, "\(seen)")
            }
        }

        @Test(
            "alerts are for root and the group, and --check says by its code why there is no answer",
            .needs("setpriv")
        )
        func refusals() async throws {
            try await Self.withRules("  - {name: r, rate: 1T, for: 5s}") { daemon, _ in
                chmod(daemon.directories.controlSocket.path, 0o666)
                let place = ["--runtime-directory", daemon.directories.runtime.path]
                let stranger = ["--reuid=65534", "--regid=65534", "--clear-groups", Machine.programs.client.path]
                let refused = try await tool("setpriv", stranger + ["alerts", "--check"] + place)
                #expect(refused.code == 77 && refused.error.contains("root") && refused.output.isEmpty)
                let snapshot = try await tool("setpriv", stranger + ["export"] + place)
                #expect(snapshot.code == 0 && !snapshot.output.contains("alerts_active"))
                #expect(try await Self.alerts(daemon, "--format", "tsv").output.split(separator: "\n").count == 1)
            }
            let nowhere = ["--runtime-directory", "/nosuchdirectory"]
            #expect(try await Program.run(Machine.programs.client, ["alerts", "--check"] + nowhere).code == 69)
        }
    }
}

extension [ExchangeOutcome: UInt64] {
    fileprivate var total: UInt64 { self.values.reduce(0, +) }
}
