import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

extension SurfaceTests {
    @Suite(.needs("python3", "curl", "setpriv", "date"))
    struct HistoryTests {
        /// Sends bytes to itself over connections on loopback, and prints what its calls returned.
        private static let program = """
            import socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            sent = received = 0
            for size in sys.argv[1:]:
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                client.sendall(bytes(int(size)))
                client.close()
                sent += int(size)
                while data := server.recv(65536): received += len(data)
            print(sent, received)
            """

        private let folder = FileManager.default.temporaryDirectory.appending(path: "history-\(UUID().uuidString)")
        /// Names that no other process of this machine has.
        private let names = (0..<2).map { "h\($0)-\(UUID().uuidString.prefix(8))" }

        private func run(_ name: String, _ sizes: [Int]) async throws -> PayloadBytes {
            let link = self.folder.appending(path: name).path
            if !FileManager.default.fileExists(atPath: link) {
                try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/usr/bin/python3")
            }
            let said = try await Program.run(URL(filePath: link), ["-c", Self.program] + sizes.map { "\($0)" })
            let output = String(decoding: said.output, as: UTF8.self)
            let moved = output.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
            try #require(said.code == 0 && moved.count == 2, "\(said.error)")
            return PayloadBytes(sent: moved[0], received: moved[1])
        }

        private static func client(
            _ arguments: [String]
        ) async throws -> (code: Int32, output: String, error: String) {
            let result = try await Program.run(Machine.programs.client, arguments)
            return (result.code, String(decoding: result.output, as: UTF8.self), result.error)
        }

        /// Makes the minutes of a history half an hour older, so that they are over.
        private static func age(_ state: String) async throws {
            let script = """
                import sqlite3, sys
                file = sqlite3.connect(sys.argv[1] + "/history.sqlite")
                file.executescript("BEGIN; UPDATE minutes SET time = time - 30;"
                    "UPDATE counted SET time = time - 30 WHERE level = 'minute'; COMMIT")
                """
            _ = try await Tool.run("python3", ["-c", script, state])
        }

        @Test(
            "what programs moved before two restarts of the daemon is in its history, to the byte, each for its viewers",
            .needsBPF
        )
        func restarts() async throws {
            try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: self.folder) }
            let state = self.folder.appending(path: "state").path
            let arguments = ["--state-directory", state, "--keep-exited", "0"]
            var truth: [String: PayloadBytes] = [:]
            // What the snapshots said of packets, which other tests compare with nftables; and how long daemons ran.
            var (wire, inside, outside): (UInt64, Duration, Duration) = (0, .zero, .zero)
            let clock = ContinuousClock()
            for round in 1...2 {
                let begin = clock.now
                try await withDaemon(arguments: arguments) { daemon in
                    let counting = clock.now
                    _ = try await daemon.snapshot()
                    var moved = PayloadBytes()
                    for (index, name) in self.names.enumerated() {
                        let said = try await self.run(name, [index + 1, round * 65_537, 1_000_003])
                        truth[name, default: PayloadBytes()] += said
                        moved += said
                    }
                    let bytes = try await look(until: { $0.payload == moved }) {
                        let snapshot = try await daemon.snapshot()
                        let running = snapshot.processes?.map { ($0.details.name, $0.bytes) } ?? []
                        let ended = snapshot.exited?.map { ($0.group.name, $0.bytes) } ?? []
                        return (running + ended).filter { self.names.contains($0.0) }.reduce(ByteCounts()) {
                            $0 + $1.1
                        }
                    }
                    #expect(bytes.payload == moved)
                    wire += (bytes.wireSent ?? 0) + (bytes.wireReceived ?? 0)
                    inside += clock.now - counting
                }
                outside += clock.now - begin
            }
            try await Self.age(state)
            try await withDaemon(arguments: arguments) { daemon in
                let directory = daemon.directories.controlSocket.deletingLastPathComponent().path
                func history(_ more: [String]) async throws -> (code: Int32, output: String, error: String) {
                    return try await Self.client(["history", "--runtime-directory", directory] + more)
                }
                // Without this daemon's own minutes: the total of one that is over may have bytes that are in no row yet.
                let json = try await history(["--since", "1h", "--until", "10m", "--format", "json"])
                let report = try JSONDecoder().decode(HistoryReport.self, from: Data(json.output.utf8))
                let rows = report.rows.filter { truth[$0.name.process ?? ""] != nil }
                #expect(
                    Dictionary(rows.map { ($0.name.process ?? "", $0.bytes.payload) }, uniquingKeysWith: +) == truth
                )
                #expect(
                    rows.reduce(0) { $0 + ($1.bytes.wireSent ?? 0) + ($1.bytes.wireReceived ?? 0) } == wire && wire > 0
                )
                // Each of the two daemons rounds its time to a second.
                let counted = Duration.seconds(report.countedSeconds)
                #expect(inside - .seconds(1) <= counted && counted <= outside + .seconds(1))
                // Each call is in one row: loopback has what all processes moved, and that is the total.
                #expect(report.rows.reduce(PayloadBytes()) { $0 + $1.bytes.payload } == report.totals.payload)
                let csv = try await history(["--since", "1d", "--bucket", "hour", "--format", "csv"]).output
                #expect(csv.hasPrefix("time,local_time,process_name,uid,") && self.names.allSatisfy(csv.contains))
                // Also if other tests' programs move more.
                let table = try await history(["--limit", "1000"]).output
                #expect(table.contains("received") && self.names.allSatisfy(table.contains) && table.contains("MB"))

                let month = try await history(["--month", "--format", "json"])
                let sums = try JSONDecoder().decode(MonthReport.self, from: Data(month.output.utf8))
                let name = self.names[0]
                let filtered = try await history(["--since", "1h", "--filter", "process:\(name)", "--format", "json"])
                let passing = try JSONDecoder().decode(HistoryReport.self, from: Data(filtered.output.utf8))
                #expect(passing.totals.payload == truth[name] && passing.rows.map(\.name.process) == [name])
                let refused = try await history(["--filter", "port:80"])
                #expect(refused.code == 64 && refused.error.contains("but these keys: process, user"))
                let minutes = try await history(
                    ["--since", "1h", "--bucket", "minute", "--filter", "process:\(name)", "--format", "json"]
                )
                let ofMinutes = try JSONDecoder().decode(HistoryReport.self, from: Data(minutes.output.utf8))
                // The last bytes of a run may be in the next minute.
                let fullest = ofMinutes.rows.max { $0.bytes.payload.sent < $1.bytes.payload.sent }
                let time = try #require(fullest?.time)
                let before = Timestamp(nanosecondsSinceEpoch: time.nanosecondsSinceEpoch - 86_400_000_000_000)
                func top(_ time: Timestamp) async throws -> (code: Int32, output: String, error: String) {
                    let at = time.description.prefix(16) + "Z"
                    let arguments = ["top", "--once", "--ascii", "--width", "100", "--at", String(at)]
                    return try await Self.client(arguments + ["--runtime-directory", directory])
                }
                let picture = try await top(time)
                let bytes = ofMinutes.rows.filter { $0.time == time }.reduce(0) { $0 + $1.bytes.payload.sent }
                #expect(picture.code == 0, "\(picture.error)")
                // Some 18 or 36 kB a second: the program ran once or twice in this minute.
                let line = picture.output.split(separator: "\n").first { $0.contains(name) } ?? ""
                #expect(line.contains(String(format: "%.1f kB", Double(bytes) / 60_000)), "\(picture.output)")
                #expect(!picture.output.contains("PID") && picture.output.contains("SENT/s"))
                let early = try await top(before)
                #expect(early.code == 1 && early.error.contains("History has minutes from"))
                let bills = try await history([
                    "--since", "1h", "--bucket", "5minute", "--by", "total", "--format", "json",
                ])
                let ofBills = try JSONDecoder().decode(HistoryReport.self, from: Data(bills.output.utf8))
                let billed = ofBills.rows.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
                #expect(ofBills.level == .fiveMinutes && ofBills.rows.count >= 1)
                let later = try await history(["--since", "1h", "--format", "json"])
                let most = try JSONDecoder().decode(HistoryReport.self, from: Data(later.output.utf8)).totals.payload
                // The month may have begun between the daemons, and a minute may end between the questions.
                #expect(report.totals.payload.sent...most.sent ~= billed.sent)
                #expect(report.totals.payload.received...most.received ~= billed.received)
                if sums.since <= report.since {
                    #expect(report.totals.payload.sent...most.sent ~= sums.totals.payload.sent)
                    #expect(report.totals.payload.received...most.received ~= sums.totals.payload.received)
                }
                let said = try await history(["--month"]).output
                #expect(said.contains(", \(sums.month) up to ") && said.contains("BOTH"))
                for (arguments, advice) in [
                    (["--month", "2999-01"], "has not begun"),
                    (["--month", "1999-01"], "It begins with \(sums.month)"),
                    (["--month", "2026-13"], "not a month such as"), (["--month", "--by", "unit"], "leave out --by"),
                    (["--exceeding", "1M"], "--exceeding needs --month"),
                    (["--month", "--class", "x"], "no class 'x'"),
                ] {
                    let answer = try await history(arguments)
                    #expect(answer.code != 0 && answer.error.contains(advice), "\(answer.error)")
                }

                let socket = daemon.directories.controlSocket
                #expect(chmod(socket.path, 0o666) == 0 && chmod(socket.deletingLastPathComponent().path, 0o755) == 0)
                func stranger(_ query: String) async throws -> String {
                    let curl = ["curl", "-s", "--unix-socket", socket.path, "http://t/v1/history?\(query)"]
                    return try await tool("setpriv", ["--reuid", "\(Machine.stranger)", "--clear-groups"] + curl).output
                }
                #expect(try await stranger("by=process").contains("\"rows\":[]"))
                #expect(try await stranger("by=total").contains("\"rows\":[]"))
                #expect(try await stranger("by=total&filter=process:\(name)").contains("\"rows\":[]"))
                #expect(try await stranger("by=scope").contains("\"status\":403"))
                let curl = ["curl", "-s", "--unix-socket", socket.path, "http://t/v1/history/month"]
                let refusal = try await tool("setpriv", ["--reuid", "\(Machine.stranger)", "--clear-groups"] + curl)
                    .output
                #expect(refusal.contains("\"status\":403"))
            }
        }

        @Test("a daemon without a state directory says how to get a history", .needsBPF)
        func without() async throws {
            try await withDaemon { daemon in
                let directory = daemon.directories.controlSocket.deletingLastPathComponent().path
                let said = try await Self.client(["history", "--runtime-directory", directory])
                #expect(said.code == 1 && said.error.contains("start it with --state-directory"))
            }
        }

        @Test(
            "every half hour around a change of the clock is in the hour, day and month that date(1) says",
            arguments: ["Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "UTC"]
        )
        func localTime(_ zone: String) async throws {
            // The clocks go back on 2026-10-25 in Europe and on 2026-11-01 in America, and forward on 2026-03-29 and 03-08.
            let days: [Int64] = [1_792_800_000, 1_793_404_800, 1_774_656_000, 1_772_841_600]
            let times = days.flatMap { day in (0..<96).map { day + $0 * 1_799 } }
            func lines(_ tool: String, _ arguments: [String], _ input: [String]) async throws -> [Substring] {
                let input = Data((input.joined(separator: "\n") + "\n").utf8)
                return try await Tool.run(tool, arguments, environment: ["TZ": zone], input: input).output
                    .split(separator: "\n")
            }
            let check = Machine.programs.directory.appending(path: "trafficcheck").path
            let starts = try await lines(check, ["starts"], times.map { "\($0)" }).flatMap { $0.split(separator: " ") }
            try #require(starts.count == 5 * times.count)
            let said = try await lines("date", ["--file=-", "+%F %H %Y-%m %M"], times.map { "@\($0)" })
            let began = try await lines("date", ["--file=-", "+%F %T"], starts.map { "@\($0)" })
            for (index, line) in said.enumerated() {
                let parts = line.split(separator: " ")
                #expect(began[5 * index] == "\(parts[0]) \(parts[1]):00:00")
                #expect(began[5 * index + 1] == "\(parts[0]) 00:00:00")
                #expect(began[5 * index + 2] == "\(parts[2])-01 00:00:00")
                #expect(0..<3_600 ~= times[index] - (Int64(starts[5 * index]) ?? 0))
                let minute = Int(parts[3]) ?? 0
                let five = minute / 5 * 5
                #expect(began[5 * index + 3] == "\(parts[0]) \(parts[1]):\(five < 10 ? "0" : "")\(five):00")
                #expect(0..<300 ~= times[index] - (Int64(starts[5 * index + 3]) ?? 0))
                // The month by its name has the same beginning.
                #expect(starts[5 * index + 4] == starts[5 * index + 2])
            }
        }

        /// What trafficcheck prints of a history in a time zone: a JSON object for each question.
        private static func ask(_ file: String, in zone: String, _ lines: [String]) async throws -> [[String: Any]] {
            let check = Machine.programs.directory.appending(path: "trafficcheck").path
            let input = Data((lines.joined(separator: "\n") + "\n").utf8)
            return try await Tool.run(check, ["zones", file], environment: ["TZ": zone], input: input).output
                .split(separator: "\n")
                .compactMap { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
        }

        private static func sent(_ object: Any?) -> UInt64? {
            ((object as? [String: Any])?["payload_sent_bytes"] as? NSNumber)?.uint64Value
        }

        @Test(
            "another time zone hides no byte of the month, and a month that is over stays what it was",
            arguments: [("Europe/Berlin", "UTC"), ("UTC", "Europe/Berlin"), ("Asia/Kolkata", "America/St_Johns")]
        )
        func otherZone(_ before: String, _ after: String) async throws {
            let folder = temporaryPath("zones")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let file = folder + "/history.sqlite"
            // 2026-10-15, 2026-11-05 and 2026-11-20 at noon UTC.
            let (october, first, second): (Int64, Int64, Int64) = (1_792_065_600, 1_793_880_000, 1_795_176_000)
            _ = try await Self.ask(file, in: before, ["add \(october) 5", "add \(first) 70"])
            // The last days of the old zone's October, and of its November, are asked for in the new zone.
            let answers = try await Self.ask(
                file,
                in: after,
                [
                    "add \(second) 900", "month 2026-11 \(second + 60)", "month 2026-10 \(second + 60)",
                    "report \(second) month \(second + 60)", "report \(second) day \(second + 60)",
                    "report 0 month \(second + 60)",
                ]
            )
            try #require(answers.count == 5)
            #expect(Self.sent(answers[0]["totals"]) == 970)
            #expect(Self.sent(answers[1]["totals"]) == 5)
            let closed = try #require(answers[1]["local_since"] as? String)
            #expect(closed.hasPrefix("2026-10-01T00:00:00"))
            #expect((answers[1]["local_until"] as? String)?.hasPrefix("2026-11-01T00:00:00") == true)
            #expect(answers[1]["time_zone"] as? String == after)
            #expect(Self.sent(answers[2]["totals"]) == 970)
            #expect(Self.sent(answers[3]["totals"]) == 900)
            let rows = try #require(answers[4]["rows"] as? [[String: Any]])
            #expect(rows.count == 3 && rows.compactMap { Self.sent($0) }.reduce(0, +) == 975)
            #expect(Set(rows.compactMap { ($0["local_time"] as? String)?.prefix(7) }) == ["2026-10", "2026-11"])
        }

        @Test("the hour that comes twice when the clocks go back has two times")
        func hourTwice() async throws {
            let folder = temporaryPath("zones")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            // 2026-10-25 00:30 and 01:30 UTC.
            let (summer, winter): (Int64, Int64) = (1_792_888_200, 1_792_891_800)
            let answers = try await Self.ask(
                folder + "/history.sqlite",
                in: "Europe/Berlin",
                ["add \(summer) 1", "add \(winter) 2", "report \(summer) hour \(winter + 60)"]
            )
            let rows = try #require(answers.first?["rows"] as? [[String: Any]])
            #expect(
                rows.compactMap { $0["local_time"] as? String } == [
                    "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00",
                ]
            )
        }
    }
}
