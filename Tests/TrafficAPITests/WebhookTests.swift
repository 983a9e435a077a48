import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficAPI
import TrafficDocuments
import TrafficKitTestSupport
import TrafficModel

/// `trafficctl alerts --follow` beside the real control server, and with a real web server that takes its POSTs.
@Suite(
    "Following alerts",
    .enabled(if: SystemTool.path("python3") != nil, "needs python3"),
    .serialized,
    .timeLimit(.minutes(60))
)
struct WebhookTests {
    private static let client = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent().appending(path: "trafficctl")

    /// A web server of Python, and what it got. Only one task at a time uses it.
    private final class Receiver: @unchecked Sendable {
        struct Request: Decodable {
            var time: Double
            var answer: String
            /// The change came before, and has the same answer again.
            var again: Bool
            var path: String
            var headers: [String: String]
            var body: String

            var notice: AlertNotice {
                get throws { try JSONDecoder().decode(AlertNotice.self, from: Data(self.body.utf8)) }
            }
        }

        let program: Program
        let port: Int
        private let start = ContinuousClock.now

        init(port: Int = 0, answers: String...) async throws {
            let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Tools/webhook/webhook.py")
            let python = try #require(SystemTool.path("python3"))
            self.program = try Program(python, [script.path, "\(port)"] + answers)
            let line = try #require(try await self.program.line(), "\(self.program.errorText)")
            self.port = try #require(Int(String(decoding: line, as: UTF8.self)))
        }

        var url: String { "http://127.0.0.1:\(self.port)/hook?secret" }

        func next() async throws -> Request {
            let line = try #require(try await self.program.line(), "\(self.program.errorText)")
            return try JSONDecoder().decode(Request.self, from: line)
        }

        /// - Parameter program: Whose requests these are. Those that it repeats because its answer was late are left
        ///   out.
        func requests(_ count: Int, of program: Program) async throws -> [Request] {
            var requests: [Request] = []
            while requests.count < count {
                let request = try await self.next()
                if !request.again || !self.wasLate(for: program) { requests.append(request) }
            }
            return requests
        }

        /// Whether an answer may have taken the 10 s after which the program repeats a request, as on a busy machine.
        func wasLate(for program: Program) -> Bool {
            ContinuousClock.now - self.start >= .seconds(10) && program.errorText.contains("no answer within 10 s")
        }

        /// Lets those that hang have their answer.
        func release() throws { try self.program.writeLine() }
    }

    private static func follow(_ server: TestServer, _ arguments: String...) throws -> Program {
        try Program(Self.client, ["alerts", "--follow", "--runtime-directory", server.path] + arguments)
    }

    /// Waits until the program follows, so that it gets what changes from now on.
    private static func wait(for followers: Int = 1, of server: TestServer) async throws {
        try #require(try await eventually(every: .milliseconds(5)) { server.alerts.followerCount >= followers })
    }

    private static func wait(for text: String, in program: Program) async throws {
        let isSaid = try await eventually(every: .milliseconds(5)) {
            try #require(program.errorText.contains(text) || program.isRunning, "\(program.errorText)")
            return program.errorText.contains(text)
        }
        try #require(isSaid, "\(program.errorText)")
    }

    @Test("a server that fails three times gets each change once, in order, with its id and as it was")
    func failsAtFirst() async throws {
        try await TestServer.with { server in
            let receiver = try await Receiver(answers: "500", "503", "429")
            let program = try Self.follow(server, "--webhook", receiver.url)
            try await Self.wait(of: server)
            let name = "\u{1b}[2J\"\\\u{7f}\u{202e}\n</script>"
            server.alerts.change(3, of: ProcessGroup(name: name, uid: 7))
            let requests = try await receiver.requests(6, of: program)
            #expect(requests.map(\.answer) == ["500", "503", "429", "200", "200", "200"])
            let ids = requests.map { $0.headers["idempotency-key"] ?? "" }
            #expect(ids == [1, 1, 1, 1, 2, 3].map { "0000000000c0ffee-\($0)" })
            for (request, id) in zip(requests, ids) {
                let notice = try request.notice
                #expect(notice.position.description == id && notice.change == .began && notice.droppedBefore == 0)
                #expect(notice.alert?.process?.name == name && request.path == "/hook?secret")
                #expect(request.headers["content-type"] == "application/json")
                #expect(request.headers["user-agent"] == "trafficctl/\(TrafficVersion.current)")
                #expect(request.headers["authorization"] == nil)
            }
            let (text, isLate) = (program.errorText, receiver.wasLate(for: program))
            #expect(text.contains("does not take change 0000000000c0ffee-1, status 500") || isLate, "\(text)")
            #expect(text.contains("takes changes again") && !text.contains("secret"))
            #expect(text.split(separator: "\n").count == 2 || isLate, "\(text)")
        }
    }

    @Test("what a server refuses is given up, said and counted; it can't send the change elsewhere or have it sooner")
    func refusals() async throws {
        try await TestServer.with { server in
            let receiver = try await Receiver(answers: "400", "307", "200", "429:3")
            let program = try Self.follow(server, "--webhook", receiver.url)
            try await Self.wait(of: server)
            server.alerts.change(4)
            let requests = try await receiver.requests(5, of: program)
            #expect(requests.map(\.answer) == ["400", "307", "200", "429:3", "200"])
            #expect(try requests.map { try $0.notice.position.number } == [1, 2, 3, 4, 4])
            #expect(requests.allSatisfy { $0.path == "/hook?secret" })
            #expect(requests[4].time - requests[3].time >= 3 || receiver.wasLate(for: program))
            #expect(program.errorText.contains("refuses change 0000000000c0ffee-1, status 400: given up, 1 so far"))
            #expect(program.errorText.contains("refuses change 0000000000c0ffee-2, status 307: given up, 2 so far"))
            // What was given up is not missing.
            #expect(try requests.allSatisfy { try $0.notice.droppedBefore == 0 })
        }
    }

    @Test(
        "a server that hangs is asked again after 10 s; 10,000 changes meanwhile stay within the limits, and are counted"
    )
    func hangs() async throws {
        try await TestServer.with { server in
            let receiver = try await Receiver(answers: "hang")
            let program = try Self.follow(server, "--webhook", receiver.url)
            try await Self.wait(of: server)
            var start = timespec()
            clock_gettime(CLOCK_MONOTONIC, &start)
            server.alerts.change(1)
            let first = try await receiver.next()
            // The follower reads meanwhile.
            for round in 0..<100 { server.alerts.change(100, rule: "r\(round % 10)") }
            server.alerts.change(1, rule: "last", of: ProcessGroup(name: "p", uid: 7))
            let again = try await receiver.next()
            // The receiver may have read the first request late.
            #expect(again.time - (Double(start.tv_sec) + Double(start.tv_nsec) / 1e9) >= 10)
            #expect(try first.notice == again.notice && first.notice.position.number == 1)
            try receiver.release()
            var (last, count, dropped) = (1 as UInt64, 1, 0 as UInt64)
            // How many come after the last change. It has the next turn, because it is about another user. So all have
            // been read when it comes, and these are what was kept.
            var kept: Int?
            while dropped + UInt64(count) < 10_002 {
                let notice = try await receiver.requests(1, of: program)[0].notice
                (count, dropped) = (count + 1, dropped + notice.droppedBefore)
                kept = notice.position.number == 10_002 ? 0 : kept.map { $0 + 1 }
                guard notice.position.number != 10_002 else { continue }
                #expect(notice.position.number > last)
                last = notice.position.number
            }
            #expect(dropped + UInt64(count) == 10_002 && dropped > 0)
            #expect(try #require(kept) <= 10 * AlertBacklog.mostOfOne)
            #expect(program.errorText.contains("no answer within 10 s"))
            #expect(program.errorText.contains("changes were dropped: too many waited"))
        }
    }

    @Test("one user's many changes make another wait for one of them, and a killed process goes on with what waits")
    func turns() async throws {
        let (path, state) = (temporaryPath("trafficd"), temporaryPath("position"))
        defer { unlink(state) }
        try Data("0000000000c0ffee-0\n".utf8).write(to: URL(filePath: state))
        let receiver = try await Receiver(answers: "hang", "200", "200", "hang")
        // The stream has time for all changes before it ends.
        var limits = ControlServer.Limits()
        limits.shutdownTimeout = .seconds(3600)
        let (kept, first) = try await TestServer.with(limits: limits, path: path) { server in
            Self.changeOfTwoUsers(server.alerts)
            let program = try Self.follow(server, "--webhook", receiver.url, "--state", state)
            return (Kept(program), try await receiver.next())
        }
        let program = kept.program
        // The end of the stream comes after all changes. So all have come before the receiver takes the first.
        try await Self.wait(for: "; trying again", in: program)
        try receiver.release()
        let requests = [first] + (try await receiver.requests(3, of: program))
        let users = try requests.map { try $0.notice.alert?.process?.uid }
        #expect(users == [7, 8, 7, 7], "\(users)")
        #expect(try requests.map { try $0.notice.position.number } == [1, 41, 2, 3])
        program.signal(SIGKILL)
        try await program.exit()
        // The third is not taken, and the 41st is.
        #expect(try String(contentsOfFile: state, encoding: .utf8) == "0000000000c0ffee-2\n")
        try await TestServer.with(path: path) { server in
            Self.changeOfTwoUsers(server.alerts)
            let receiver = try await Receiver()
            let again = try Self.follow(server, "--webhook", receiver.url, "--state", state)
            let late = try await receiver.requests(39, of: again).map { try $0.notice.position.number }
            #expect(Set(late) == Set(3...41) && late.first == 3, "\(again.errorText)")
        }
    }

    private static func changeOfTwoUsers(_ alerts: FakeAlerts) {
        alerts.change(40, of: ProcessGroup(name: "p", uid: 7))
        alerts.change(1, of: ProcessGroup(name: "p", uid: 8))
    }

    @Test("nobody listens at first: the changes wait; SIGTERM ends a process that waits at once")
    func refused() async throws {
        try await TestServer.with { server in
            let port = try FreePort.next()
            let program = try Self.follow(server, "--webhook", "http://127.0.0.1:\(port)/")
            try await Self.wait(of: server)
            server.alerts.change(2)
            try await Self.wait(for: "does not take change", in: program)
            let receiver = try await Receiver(port: port, answers: "200", "200", "503:3600")
            let early = try await receiver.requests(2, of: program)
            #expect(try early.map { try $0.notice.position.number } == [1, 2])
            server.alerts.change(1)
            #expect(try await receiver.requests(1, of: program)[0].answer == "503:3600")
            try await Self.wait(for: "does not take change 0000000000c0ffee-3, ", in: program)
            let text = program.errorText
            #expect(text.contains("change 0000000000c0ffee-3, status 503") || receiver.wasLate(for: program), "\(text)")
            program.signal(SIGTERM)
            // The test has less patience than the process would have.
            #expect(try await program.exit() == 128 + SIGTERM)
        }
    }

    @Test("a process that begins anew goes on after the last change that the server has")
    func state() async throws {
        try await TestServer.with { server in
            let (state, token) = (server.path + "/position", server.path + "/token")
            try Data("s3cret\n".utf8).write(to: URL(filePath: token))
            chmod(token, 0o600)
            func start(_ receiver: Receiver) throws -> Program {
                try Self.follow(server, "--webhook", receiver.url, "--state", state, "--token-file", token)
            }
            server.alerts.change(5)
            let receiver = try await Receiver(answers: "200", "200", "503:3600")
            let first = try start(receiver)
            try await Self.wait(of: server)
            server.alerts.change(3)
            // Two are taken, and the third is not.
            let early = try await receiver.requests(3, of: first)
            #expect(try early.map { try $0.notice.position.number } == [6, 7, 8])
            first.signal(SIGKILL)
            try await first.exit()
            #expect(try String(contentsOfFile: state, encoding: .utf8) == "0000000000c0ffee-7\n")
            server.alerts.change(2)
            // Another one, which knows no change.
            let other = try await Receiver()
            let second = try start(other)
            let late = try await other.requests(3, of: second)
            #expect(try late.map { try $0.notice.position.number } == [8, 9, 10])
            #expect(late.allSatisfy { $0.headers["authorization"] == "Bearer s3cret" })
            #expect(!second.errorText.contains("s3cret"))
        }
    }

    @Test("the daemon is started anew: its changes are posted from the first one on, and none twice")
    func restart() async throws {
        let path = temporaryPath("trafficd")
        let receiver = try await Receiver()
        let program = try await TestServer.with(path: path) { server in
            let program = try Self.follow(server, "--webhook", receiver.url)
            try await Self.wait(of: server)
            server.alerts.change(2)
            #expect(try await receiver.requests(2, of: program).map { try $0.notice.position.number } == [1, 2])
            return Kept(program)
        }
        try await Self.wait(for: "trying again", in: program.program)
        try await TestServer.with(path: path, origin: 0xdeadbeef) { server in
            server.alerts.change(3)
            let ids = try await receiver.requests(3, of: program.program).map { try $0.notice.position.description }
            #expect(ids == [1, 2, 3].map { "00000000deadbeef-\($0)" })
            #expect(program.program.errorText.contains("started anew"))
        }
    }

    /// Only one task at a time uses it.
    private struct Kept: @unchecked Sendable {
        let program: Program
        init(_ program: Program) { self.program = program }
    }

    @Test("without a webhook, changes are lines of text or JSON")
    func lines() async throws {
        try await TestServer.with { server in
            let text = try Self.follow(server)
            let json = try Self.follow(server, "--format", "ndjson")
            try await Self.wait(for: 2, of: server)
            server.alerts.change(1, of: ProcessGroup(name: "a\u{1b}[2J", uid: 7))
            let line = String(decoding: try #require(try await text.line()), as: UTF8.self)
            #expect(line.hasPrefix("1970-01-01T00:00:00.000Z began: r: a") && line.contains(" of user 7 since "))
            #expect(!line.unicodeScalars.contains("\u{1b}"))
            let notice = try JSONDecoder().decode(AlertNotice.self, from: try #require(try await json.line()))
            #expect(notice.position.number == 1 && notice.change == .began && notice.alert?.rule == "r")
        }
    }

    @Test(
        "wrong options are refused with the next step",
        arguments: [
            (["--webhook", "ftp://host.example/"], "must be such as https://host.example/path"),
            (["--webhook", "https://user:pw@host.example/"], "put a token in a file"),
            (["--webhook", "host.example"], "must be such as https://host.example/path"),
            (["--state", "/nonexistent/x"], "--webhook: is missing"),
            (["--format", "csv"], "--follow takes --format table, json or ndjson"),
            (["--check"], "can't be combined"),
            (["--webhook", "http://host.example/", "--token-file", "/etc/passwd"], "open to every user"),
            (["--webhook", "http://host.example/", "--state", "/etc/hostname"], "has no id of a change"),
            (["--webhook", "http://host.example/", "--token-file", "/nonexistent"], "can't read /nonexistent"),
        ]
    )
    func refusedOptions(arguments: [String], text: String) async throws {
        let place = ["--runtime-directory", "/nonexistent"]
        let result = try await Program.run(Self.client, ["alerts", "--follow"] + place + arguments)
        #expect(result.code != 0 && result.error.contains(text), "\(result.error)")
        #expect(!result.error.contains("pw@"))
    }
}
