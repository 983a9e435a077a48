import Foundation
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficKitTestSupport
import TrafficLimits
import TrafficMetrics
import TrafficModel

@testable import TrafficPush

@Suite(
    "Pushing metrics",
    .enabled(if: MetricsReceiver.missing == nil, Comment(rawValue: MetricsReceiver.missing ?? "")),
    .timeLimit(.minutes(60))
)
struct PushTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Readings in which one program has sent as many bytes as there were readings.
    private final class Source: ReadingSource {
        private let count = Mutex<UInt64>(0)
        let isReady = true
        let limits: [StatedLimit] = []

        let newest: Reading? = nil

        func fresh() async -> Reading? { nil }
        func checks() -> [DoctorReport.Check] { [] }
        func updates() -> AsyncStream<Reading> { AsyncStream { $0.finish() } }

        func freshMetrics() async -> MetricsReading? {
            var reading = PushMessagesTests.reading()
            let count = self.count.withLock {
                $0 += 1
                return $0
            }
            reading.processes.series[0].value.payload.sent = count
            reading.takenAt.nanosecondsSinceEpoch += Int64(count) * 1_000_000_000
            return reading
        }
    }

    /// The directory of a spool, which goes with this value.
    private final class Folder {
        let url = FileManager.default.temporaryDirectory.appending(path: "push-\(UUID().uuidString)")

        init() throws { try FileManager.default.createDirectory(at: self.url, withIntermediateDirectories: false) }

        deinit { try? FileManager.default.removeItem(at: self.url) }

        var spool: String { self.url.appending(path: "push.sqlite").path }

        func file(_ text: String, mode: mode_t = 0o600) throws -> String {
            let path = self.url.appending(path: UUID().uuidString).path
            try Data(text.utf8).write(to: URL(filePath: path))
            try #require(chmod(path, mode) == 0)
            return path
        }
    }

    private static func service(
        _ destinations: PushDestination...,
        every interval: Duration = .milliseconds(200),
        spool: String? = nil,
        patience: Duration = Program.patience
    ) throws -> PushService {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return PushService(
            try destinations.map { try PushReceiver($0) },
            every: interval,
            source: Source(),
            hostName: "host1",
            spoolPath: spool,
            patience: patience,
            logger: logger
        )
    }

    /// Runs a service until the body returns.
    private static func with<Value: Sendable>(
        _ service: PushService,
        _ body: @Sendable @escaping () async throws -> Value
    ) async throws -> Value {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let group = ServiceGroup(services: [service], logger: logger)
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            let result: Swift.Result<Value, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return try result.get()
        }
    }

    private static func sent(_ request: MetricsReceiver.Request) -> Int64? {
        let point = request.points.first {
            $0.name == "process.network.io" && $0.resource["process.executable.name"] == .text("web")
                && $0.attributes["network.io.direction"] == .text("transmit")
        }
        guard case .whole(let value) = point?.value else { return nil }
        return value
    }

    @Test("a receiver gets each reading once and in order, with the fields that it wants")
    func order() async throws {
        let folder = try Folder()
        let receiver = try await MetricsReceiver(root: Self.root)
        var destination = PushDestination(url: receiver.url)
        destination.headersFile = try folder.file("# secret\n\nAuthorization: Bearer abc\nX-Scope: a b\n")
        let service = try Self.service(destination)
        try await Self.with(service) { () async throws -> Void in
            for number in 1...5 as ClosedRange<Int64> {
                let request = try await receiver.next()
                #expect(Self.sent(request) == number && request.path == "/v1/metrics")
                #expect(request.headers?["authorization"] == "Bearer abc" && request.headers?["x-scope"] == "a b")
                #expect(request.headers?["content-type"] == "application/x-protobuf")
                #expect(request.headers?["content-encoding"] == "gzip")
                #expect(request.headers?["user-agent"]?.hasPrefix("trafficd/") == true)
            }
        }
        let status = try #require(service.board.all.first)
        #expect(status.delivered >= 4 && status.failed == 0 && status.problem == nil && status.lastDelivery != nil)
    }

    @Test(
        "whatever goes wrong for a while, every reading arrives in the end, in order",
        arguments: ["status 503", "status 429 1", "status 502", "half", "lose", "hang"]
    )
    func failures(_ words: String) async throws {
        let receiver = try await MetricsReceiver(root: Self.root)
        let beside = try await MetricsReceiver(root: Self.root)
        // `lose` needs somebody to give the request to.
        try await receiver.tell(words == "lose" ? "lose \(beside.url)" : words)
        // A receiver that hangs has so long, and one that is only slow gets the request again, which is no fault.
        let patience = ["half", "hang"].contains(words) ? Duration.seconds(2) : Program.patience
        let service = try Self.service(PushDestination(url: receiver.url), patience: patience)
        try await Self.with(service) { () async throws -> Void in
            let first = try await receiver.next()
            #expect(Self.sent(first) == 1)
            // It comes again, and nothing else before it.
            let again = try await receiver.next()
            #expect(Self.sent(again) == 1)
            let before = try await receiver.tell("take")
            #expect(before.allSatisfy { Self.sent($0) == 1 })
            var last: Int64 = 0
            while last < 4 {
                let sent = try #require(Self.sent(try await receiver.next()))
                #expect(sent == last + 1 || sent == last, "\(sent) after \(last)")
                last = max(last, sent)
            }
        }
        let status = try #require(service.board.all.first)
        #expect(status.failed > 0 && status.dropped == 0 && status.refused == 0)
    }

    @Test("what the daemon counts of its requests is what the receiver got and answered", arguments: [503, 400, 200])
    func counts(_ status: Int) async throws {
        let receiver = try await MetricsReceiver(root: Self.root)
        try await receiver.tell("status \(status)")
        // One reading: then nothing is under way when both sides are counted.
        let service = try Self.service(PushDestination(url: receiver.url), every: .seconds(3_600))
        try await Self.with(service) { () async throws -> Void in
            var requests: [MetricsReceiver.Request] = [try await receiver.next()]
            // It comes again after a second, and again after two.
            if status == 503 { requests.append(try await receiver.next()) }
            requests += try await receiver.tell("take")
            // One that the receiver had begun to answer may come first.
            while status == 503 && requests.last?.did != "take" { requests.append(try await receiver.next()) }
            let answered = requests.map(\.did).reduce(into: [:]) { $0[$1, default: 0] += 1 as UInt64 }
            let isCounted = try await eventually {
                let own = service.board.all[0]
                return own.waiting == 0 && own.delivered + own.failed + own.refused == UInt64(requests.count)
            }
            let own = service.board.all[0]
            #expect(isCounted && requests.allSatisfy { Self.sent($0) == 1 }, "\(own) of \(requests.count)")
            switch status {
            case 503: #expect(own.failed == answered["status"] && own.delivered == answered["take"] && own.failed > 1)
            case 400: #expect(own.refused == 1 && requests.count == 1)
            default: #expect(own.delivered == 1 && requests.count == 1)
            }
            #expect(own.dropped == 0 && own.rejectedPoints == 0 && (own.problem == nil) == (status != 400))
        }
    }

    @Test("TLS: a receiver with a certificate of ca_file and its own name gets metrics, and no other one does")
    func tls() async throws {
        let certificates = try await Certificates.local
        let receiver = try await MetricsReceiver(
            root: Self.root,
            identity: (certificates.certificate, certificates.key)
        )
        let foreign = try await MetricsReceiver(
            root: Self.root,
            identity: (certificates.foreignCertificate, certificates.foreignKey)
        )
        let folder = try Folder()
        var trusting = PushDestination(url: receiver.url)
        trusting.headersFile = try folder.file("Authorization: Bearer abc\n")
        trusting.certificateAuthorityFile = certificates.authority
        var toForeign = trusting
        toForeign.url = foreign.url
        // The system does not know the authority of the first, and the second has another host's name.
        for (refused, reason) in [
            (PushDestination(url: receiver.url), "its certificate is not trusted (ca_file names who vouches for it)"),
            (toForeign, "its certificate is for another host"),
        ] {
            let service = try Self.service(refused)
            try await Self.with(service) { () async throws -> Void in
                #expect(try await eventually { service.board.all[0].failed >= 2 })
            }
            #expect(service.board.all[0].delivered == 0 && service.board.all[0].problem == reason)
        }
        for receiver in [receiver, foreign] { #expect(try await receiver.tell("take").isEmpty) }
        let service = try Self.service(trusting)
        try await Self.with(service) { () async throws -> Void in
            let first = try await receiver.next()
            #expect(Self.sent(first) == 1 && first.headers?["authorization"] == "Bearer abc")
            let second = try await receiver.next()
            #expect(Self.sent(second) == 2)
        }
        #expect(service.board.all[0].failed == 0)
    }

    @Test("a receiver that hangs or is away holds up no other one")
    func independence() async throws {
        let (slow, good) = (try await MetricsReceiver(root: Self.root), try await MetricsReceiver(root: Self.root))
        try await slow.tell("hang")
        var lines = PushDestination(url: good.url)
        lines.format = .ndjson
        let service = try Self.service(
            PushDestination(url: slow.url),
            lines,
            PushDestination(url: "http://127.0.0.1:1/nobody")
        )
        try await Self.with(service) { () async throws -> Void in
            for _ in 1...5 {
                let request = try await good.next()
                #expect(request.headers?["content-type"] == "application/x-ndjson" && request.points.count > 40)
            }
            #expect(
                try await eventually {
                    service.board.all[0].waiting > 3 && service.board.all[2].waiting > 3
                        && service.board.all[2].problem == "Connection refused"
                }
            )
        }
        #expect(service.board.all[1].delivered >= 4)
    }

    @Test("what a receiver refuses or leaves out is counted, and the next reading goes on", arguments: [400, 401, 307])
    func refusals(_ status: Int) async throws {
        let receiver = try await MetricsReceiver(root: Self.root)
        try await receiver.tell("status \(status)")
        let service = try Self.service(PushDestination(url: receiver.url))
        try await Self.with(service) { () async throws -> Void in
            #expect(Self.sent(try await receiver.next()) == 1)
            // A redirection leads nowhere else.
            let second = try await receiver.next()
            #expect(Self.sent(second) == 2 && second.path == "/v1/metrics")
            try await receiver.tell("partial 7")
            #expect(try await eventually { service.board.all[0].rejectedPoints >= 7 })
        }
        #expect(service.board.all[0].refused >= 2 && service.board.all[0].rejectedPoints % 7 == 0)
        #expect(service.board.all[0].problem == "it left out 7 points: too old")
    }

    @Test("what waits outlasts the service; a new receiver gets only what comes from then on")
    func restart() async throws {
        let folder = try Folder()
        let receiver = try await MetricsReceiver(root: Self.root)
        try await receiver.tell("status 503")
        let first = try Self.service(PushDestination(url: receiver.url), spool: folder.spool)
        try await Self.with(first) { () async throws -> Void in
            #expect(try await eventually { first.board.all[0].waiting >= 3 })
        }
        try await receiver.tell("take")
        let other = try await MetricsReceiver(root: Self.root)
        let second = try Self.service(
            PushDestination(url: receiver.url),
            PushDestination(url: other.url),
            every: .seconds(3_600),
            spool: folder.spool
        )
        try await Self.with(second) { () async throws -> Void in
            var (last, repetitions) = (0 as Int64, 0)
            while last < 3 {
                let request = try await receiver.next()
                // The first service may have left a request under way, whatever became of it.
                guard request.did == "take" else { continue }
                let sent = try #require(Self.sent(request))
                #expect(sent == last + 1 || sent == last, "\(sent) after \(last)")
                repetitions += sent == last ? 1 : 0
                last = max(last, sent)
            }
            #expect(repetitions <= 1)
            // The source of the second service begins anew.
            #expect(Self.sent(try await other.next()) == 1)
            // A receiver whose lines nobody reads would wait itself.
            let isDone = try await eventually {
                for receiver in [receiver, other] { try await receiver.tell("take") }
                return second.board.all.allSatisfy { $0.waiting == 0 }
            }
            #expect(isDone)
        }
        #expect(second.board.all[1].delivered == 1)
    }

    @Test("a wait that the receiver asks for is understood in both forms, and has a limit")
    func retryAfter() {
        let now = Timestamp(nanosecondsSinceEpoch: 784_111_777_000_000_000)
        func seconds(_ text: String?) -> Double? {
            let answer = PushAnswer(status: 503, retryAfter: text, body: [], format: .otlp, now: now)
            guard case .failed(_, let seconds) = answer else { return -1 }
            return seconds
        }
        #expect(seconds(nil) == nil && seconds("7") == 7 && seconds("0") == 0 && seconds("-5") == nil)
        #expect(seconds("Sun, 06 Nov 1994 08:49:47 GMT") == 10 && seconds("Sun, 06 Nov 1994 08:49:17 GMT") == 0)
        #expect(seconds("99999999") == PushAnswer.longestWait && seconds("soon") == nil && seconds("nan") == nil)
        #expect(seconds("1e3") == nil && seconds("") == nil && seconds("Fri, 31 Dec 9999 23:59:59 GMT") == 3_600)
        #expect(seconds("Sat, 01 Jan 0001 00:00:00 GMT") == 0 && seconds("Fri, 01 Jan 1700 00:00:00 GMT") == 0)
        for (status, format, isTemporary) in [
            (500, PushDestination.Format.otlp, false), (500, .ndjson, true), (404, .ndjson, false), (504, .otlp, true),
            (408, .ndjson, true), (501, .ndjson, false),
        ] {
            let answer = PushAnswer(status: status, retryAfter: nil, body: [], format: format, now: now)
            #expect((answer == .failed("it answers \(status)", seconds: nil)) == isTemporary, "\(status)")
        }
        var backoff = PushBackoff()
        let pauses = (0..<10).map { _ in backoff.next(atLeast: nil) }
        #expect(pauses[0] <= 1.2 && pauses[9] >= 48 && pauses.allSatisfy { $0 <= PushBackoff.longest * 1.2 })
        #expect((3_000...3_600).contains(backoff.next(atLeast: 3_000)))
        #expect((0..<20).allSatisfy { _ in backoff.next(atLeast: PushAnswer.longestWait) == PushAnswer.longestWait })
    }

    @Test("the log has what changes, ten lines at once and then one a minute")
    func log() {
        var log = PushLog(PushDestination(url: "http://h/"))
        let start = ContinuousClock.now
        func lines(_ answers: [(second: Int, answer: PushAnswer)]) -> [String] {
            answers.compactMap { log.line($0.answer, now: start + .seconds($0.second))?.text }
        }
        let (taken, away) = (
            PushAnswer.delivered(rejectedPoints: 0, message: ""), PushAnswer.failed("away", seconds: nil)
        )
        #expect(lines([(0, taken), (1, taken)]) == [])
        #expect(lines([(2, away), (3, away)]) == ["can't send metrics to http://h, and goes on trying: away"])
        #expect(lines([(4, .refused("it answers 401"))]) == ["http://h refuses metrics: it answers 401"])
        #expect(lines([(5, taken), (6, taken)]) == ["http://h takes metrics again"])
        // Their number changes all the time, and says nothing new.
        let old = (7..<10).map { ($0, PushAnswer.delivered(rejectedPoints: UInt64($0), message: "too old")) }
        #expect(lines(old) == ["http://h left out 7 points: too old"])
        #expect(lines([(10, taken)]) == ["http://h takes all points again"])
        #expect(
            lines([(11, .delivered(rejectedPoints: 0, message: "x"))]) == ["http://h takes metrics, and remarks: x"]
        )
        #expect(lines([(12, taken)]) == ["http://h has no more remarks"])
        // With other words each time, for 1,000 minutes: what is left of the ten, and one a minute.
        let turns = (13..<60_013).map { ($0, PushAnswer.delivered(rejectedPoints: 1, message: "\($0)")) }
        #expect((1_002...1_004).contains(lines(turns).count))
        // In the end it says how it is.
        #expect(lines((60_013..<60_080).map { ($0, away) }).count == 1)
    }

    @Test("what a receiver says is cut, and has no control characters")
    func words() throws {
        let said = PushAnswer.short("a\nb\u{1b}[31m" + String(repeating: "\u{301}", count: 30_000))
        #expect(said.unicodeScalars.starts(with: "a\u{fffd}b\u{fffd}[31m".unicodeScalars))
        #expect(said.unicodeScalars.count == 200)
        #expect(PushAnswer.leftOut(3, "") == "left out 3 points")
    }

    @Test("a file of fields that others can read, or that is none, is refused")
    func files() throws {
        let folder = try Folder()
        for (text, mode, reason) in [
            ("A: b", 0o644, "chmod o="), ("A b", 0o600, "NAME: VALUE"), ("A\u{1}: b", 0o600, "NAME: VALUE"),
            ("A: b\u{7}", 0o600, "NAME: VALUE"),
        ] as [(String, mode_t, String)] {
            var destination = PushDestination(url: "http://localhost/")
            destination.headersFile = try folder.file(text, mode: mode)
            #expect("\(try #require(throws: (any Error).self) { try Self.service(destination) })".contains(reason))
        }
        var destination = PushDestination(url: "https://localhost/")
        destination.certificateAuthorityFile = try folder.file("no certificate")
        #expect("\(try #require(throws: (any Error).self) { try Self.service(destination) })".contains("PEM"))
    }

    @Test("logs and metrics have the URL without what may be secret")
    func names() {
        for (url, name) in [
            ("http://user:pass@h:1/a/b?token=x#y", "http://h:1"), ("https://h", "https://h"),
            ("http://a@b@h/?q", "http://h"), ("http://h?q@x/y", "http://h"),
            ("http://[::1]:4318/v1/metrics", "http://[::1]:4318"),
        ] {
            #expect(PushDestination(url: url).name == name)
        }
        let board = PushStatusBoard([PushDestination(url: "http://h/a"), PushDestination(url: "http://h/b")])
        #expect(board.all.map(\.destination) == ["http://h", "http://h 2"])
    }
}
