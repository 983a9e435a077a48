import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("Traffic monitor")
struct TrafficMonitorTests {
    @Test("reports arrive at once, in order and numbered")
    func arrives() async throws {
        let daemon = try ReportReceiver()
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: daemon.path))
        let name = Report.Name(method: "", host: "", route: "/users/{id}")
        let records = (1...500 as ClosedRange<UInt64>).map { Report.Record.exchange(.request($0, name: name)) }
        for record in records { monitor.report(record) }
        let (received, sequences) = try await daemon.records(500)
        #expect(received == records)
        #expect(sequences == Array(0..<UInt32(sequences.count)))
        #expect(monitor.droppedRecords == 0)
    }

    @Test("a monitor can start and stop any number of times; stopping sends what waits")
    func startAndStop() async throws {
        let daemon = try ReportReceiver()
        let monitor = TrafficMonitor()
        monitor.report(.exchange(.request(1)))  // no daemon gets this
        monitor.stop()
        #expect(try monitor.start(.init(socketPath: daemon.path)))
        #expect(!monitor.start())
        #expect(monitor.isRunning)
        monitor.report(.exchange(.request(2)))
        monitor.stop()
        monitor.stop()
        #expect(!monitor.isRunning)
        monitor.report(.exchange(.request(3)))
        #expect(monitor.name(method: "GET", host: "a", target: "/") == nil)
        #expect(try monitor.start(.init(socketPath: daemon.path)))
        monitor.report(.exchange(.request(4)))
        monitor.stop()
        #expect(try await daemon.records(2).records == [.exchange(.request(2)), .exchange(.request(4))])
    }

    @Test("a second start with other settings is an error, and with the same settings does nothing")
    func startedTwice() throws {
        final class Object: TrafficObserver {
            func observe(_ record: Report.Record) {}
        }
        let (object, monitor) = (Object(), TrafficMonitor())
        let configuration = TrafficMonitor.Configuration(socketPath: "/nowhere", hosts: ["h"], observers: [object])
        #expect(try monitor.start(configuration))
        #expect(try !monitor.start(configuration))
        var others = Array(repeating: configuration, count: 6)
        others[0].filter = TrafficFilter(exclude: [.init(path: "/private")])
        others[1].socketPath = "/elsewhere"
        others[2].naming = RouteNaming(patterns: [try .init("/a")])
        others[3].hosts = nil
        others[4].observers = [Object()]
        others[5].observers = [object, Named("a", Seen())]
        for other in others { #expect(throws: TrafficMonitor.AlreadyRunning()) { try monitor.start(other) } }
        // A caller without settings of its own gets the running monitor.
        #expect(!monitor.start())
        // The settings of the first start stay in force.
        #expect(monitor.name(method: "GET", host: "h", target: "/private") != nil)
        monitor.stop()
        #expect(try monitor.start(others[0]))
        #expect(monitor.name(method: "GET", host: "h", target: "/private") == nil)
        monitor.stop()
        let value = TrafficMonitor.Configuration(socketPath: "/nowhere", observers: [Named("a", Seen())])
        #expect(try monitor.start(value))
        #expect(throws: TrafficMonitor.AlreadyRunning()) { try monitor.start(value) }
        #expect(monitor.isRunning)
    }

    @Test("reports of many threads arrive once, and those of each thread in their order", arguments: [false, true])
    func threads(haveOwnGatherers: Bool) async throws {
        let daemon = try ReadingDaemon()
        let sender = ReportSender(path: daemon.path)
        let (threads, each) = (8, 1_000)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    let gatherer = haveOwnGatherers ? sender.gathererOfThread() : nil
                    for number in 1...each {
                        sender.send([.exchange(.request(UInt64(number * threads + thread)))], by: gatherer)
                    }
                }
            }
        }
        // What finds the daemon's queue full waits for the next flush.
        #expect(
            try await eventually {
                sender.flush()
                return daemon.records.requests.count == threads * each
            }
        )
        let (numbers, sequences) = (try await daemon.stop().requests.map { Int($0.number) }, daemon.sequences)
        #expect(sender.droppedRecords == 0 && Set(numbers).count == threads * each)
        for thread in 0..<threads {
            #expect(numbers.filter { $0 % threads == thread } == (1...each).map { $0 * threads + thread })
        }
        #expect(sequences == Array(0..<UInt32(sequences.count)))
    }

    @Test("a connection that outlives a stop and a start follows the settings of the last start")
    func reporter() async throws {
        let daemon = try ReportReceiver()
        let monitor = TrafficMonitor()
        let reporter = TrafficReporter(monitor, role: .client)
        reporter.report([.exchange(.request(1))])  // no daemon gets this
        let request = { MessageHead.Request(method: "GET", target: $0, host: "a:80") }
        #expect(reporter.name(of: request("/b/1")) == nil)
        try monitor.start(.init(socketPath: daemon.path))
        for _ in 0..<2 {
            #expect(reporter.name(of: request("/b/1")) == .init(method: "GET", host: "a", route: "/b/{id}"))
        }
        reporter.report([.exchange(.request(2))])
        monitor.stop()
        #expect(reporter.name(of: request("/b/1")) == nil)
        reporter.report([.exchange(.request(3))])
        try monitor.start(.init(socketPath: daemon.path, filter: TrafficFilter(exclude: [.init(path: "/b")])))
        #expect(reporter.name(of: request("/b/1")) == nil)
        #expect(reporter.name(of: request("/c?d")) == .init(method: "GET", host: "a", route: "/c"))
        reporter.report([.exchange(.request(4))])
        monitor.stop()
        #expect(try await daemon.records(2).records == [.exchange(.request(2)), .exchange(.request(4))])
    }

    @Test("a route's name is made once, with the request's own method and host")
    func routes() throws {
        let monitor = TrafficMonitor()
        try monitor.start(
            .init(socketPath: "/nowhere/report.sock", filter: TrafficFilter(exclude: [.init(path: "/b")]))
        )
        let reporter = TrafficReporter(monitor, role: .client)
        let name = { (method: String, host: String, target: String, template: String?) in
            reporter.name(
                of: .init(method: method, target: target, host: host),
                template.map { .template($0) } ?? .path
            )
        }
        let first = try #require(name("GET", "A:80", "/users/1", "/users/{user}"))
        #expect(first == .init(method: "GET", host: "a", route: "/users/{user}"))
        #expect(name("GET", "A:80", "/users/2", "/users/{user}")?.isIdentical(to: first) == true)
        let request = MessageHead.Request(method: "PUT", target: "/users/1", host: "a")
        for _ in 0..<2 {
            #expect(
                reporter.name(of: request, .template("/users/{user}"))
                    == .init(method: "PUT", host: "a", route: "/users/{user}")
            )
            #expect(
                name("GET", "b", "/users/1", "/users/{user}")
                    == .init(method: "GET", host: "b", route: "/users/{user}")
            )
            #expect(reporter.name(of: request, .template("/other")) == .init(method: "PUT", host: "a", route: "/other"))
            #expect(reporter.name(of: request) == .init(method: "PUT", host: "a", route: "/users/{id}"))
        }
        #expect(reporter.admits(request))
        #expect(!reporter.admits(.init(method: "GET", target: "/b/1", host: "a")))
        monitor.stop()
        #expect(!reporter.admits(request) && reporter.name(of: request, .template("/other")) == nil)
    }

    @Test("a stopped monitor releases its observers when its connections report, not while an observer is at work")
    func retiredObservers() throws {
        final class Ending: TrafficObserver {
            let ended: Seen
            init(_ ended: Seen) { self.ended = ended }
            func observe(_ record: Report.Record) {}
            deinit { self.ended.names.withLock { $0.append("ended") } }
        }
        let ended = Seen()
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [Ending(ended)]))
        let reporter = TrafficReporter(monitor, role: .client)
        let request = MessageHead.Request(method: "GET", target: "/", host: "h")
        #expect(reporter.name(of: request) != nil)
        monitor.stop()
        #expect(reporter.name(of: request) == nil && ended.names.withLock { $0.isEmpty })
        reporter.report([.exchange(.request(1))])
        #expect(ended.names.withLock { $0 } == ["ended"])
    }

    @Test("records are reported in the middle of a connection's work only where no code of the app can run")
    func unobserved() async throws {
        final class Ending: TrafficObserver {
            let ended: Seen
            init(_ ended: Seen) { self.ended = ended }
            func observe(_ record: Report.Record) { self.ended.names.withLock { $0.append("seen") } }
            deinit { self.ended.names.withLock { $0.append("ended") } }
        }
        let (ended, monitor, receiver) = (Seen(), TrafficMonitor(), try ReportReceiver())
        let reporter = TrafficReporter(monitor, role: .client)
        func observed() -> [String] { ended.names.withLock { $0 } }
        #expect(!reporter.reportIfUnobserved([.exchange(.request(1))]))
        try monitor.start(.init(socketPath: receiver.path, observers: [Ending(ended)]))
        #expect(!reporter.reportIfUnobserved([.exchange(.request(2))]) && observed() == [])
        monitor.stop()
        try monitor.start(.init(socketPath: receiver.path))
        // The run that ended is to be released first, and its observer with it.
        #expect(!reporter.reportIfUnobserved([.exchange(.request(3))]) && observed() == [])
        reporter.report([.exchange(.request(3))])
        #expect(observed() == ["ended"])
        #expect(reporter.reportIfUnobserved([.exchange(.request(4))]))
        monitor.stop()
        #expect(try await receiver.everything().records.exchanges.map(\.number) == [3, 4])
    }

    @Test("observers see everything, side by side and in their order, also without a daemon")
    func observers() throws {
        let seen = Seen()
        let monitor = TrafficMonitor()
        try monitor.start(
            .init(socketPath: "/nowhere/report.sock", observers: [Named("a", seen), Named("b", seen)])
        )
        monitor.report(.exchange(.request(1)))
        monitor.report(.exchange(.request(2)))
        #expect(seen.names.withLock { $0 } == ["a1", "b1", "a2", "b2"])
    }

    @Test("numbers of exchanges are unique in the process, also with several monitors")
    func exchanges() async {
        let monitors = [TrafficMonitor(), TrafficMonitor()]
        let numbers = await withTaskGroup(of: [UInt64].self) { group in
            for index in 0..<8 { group.addTask { (0..<1_000).map { _ in monitors[index % 2].makeExchange() } } }
            return await group.reduce(into: Set<UInt64>()) { $0.formUnion($1) }
        }
        #expect(numbers.count == 8_000 && !numbers.contains(0))
    }

    @Test("an exchange that the app excludes has no name")
    func filter() throws {
        let monitor = TrafficMonitor()
        let filter = TrafficFilter(
            include: [.init(host: "api.example"), .init(host: "*.example", path: "/open/")],
            exclude: [.init(path: "/private")]
        )
        try monitor.start(.init(socketPath: "/nowhere", filter: filter))
        let name = { (host: String, target: String) in
            monitor.name(method: "GET", host: host, target: target).map { $0.host + $0.route }
        }
        #expect(name("API.example:8443", "/users/1?secret=1") == "api.example/users/{id}")
        #expect(name("www.example", "/open/1") == "www.example/open/{id}")
        #expect(name("www.example", "/open?x") == "www.example/open")
        #expect(name("www.example", "/opened") == nil)
        #expect(name("example", "/open") == nil)
        #expect(name("api.example", "/private/1") == nil)
        #expect(name("api.example", "/private?x") == nil)
        #expect(name("api.example", "/privateer") == "api.example/privateer")
        #expect(name("user:word@[2001:DB8::1]:80", "/") == nil)
        #expect(HostNaming.host(of: "user:word@[2001:DB8::1]:80") == "[2001:db8::1]")
    }

    @Test(
        "a daemon that hangs costs no time; records beyond the backlog are lost and counted, the rest arrives in order",
        arguments: [1, 200]
    )
    func hangingDaemon(atATime: Int) async throws {
        let daemon = try ReportReceiver()
        let sender = ReportSender(path: daemon.path)
        let name = Report.Name(method: "", host: "", route: "/" + String(repeating: "a", count: 1_000))
        var exchange = Report.Exchange.request(0, name: name)
        // A Unix socket's queue holds net.unix.max_dgram_qlen datagrams, of up to 49,152 bytes. The test sends far
        // more.
        for _ in 0..<80_000 / atATime {
            let records = (0..<atATime).map { _ in
                exchange.number += 1
                return Report.Record.exchange(exchange)
            }
            sender.send(RecordBatch(records))
        }
        sender.flush()
        let dropped = Int(sender.droppedRecords)
        // Once the daemon runs again, it gets the backlog without another report.
        let (records, sequences) = try await daemon.records(80_000 - dropped)
        #expect(dropped > 0 && records.count + dropped == 80_000)
        let numbers = records.map { $0.exchange?.number ?? 0 }
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 })
        #expect(Int(sender.droppedRecords) == dropped)
        #expect(sequences == Array(0..<UInt32(sequences.count)))
        #expect(sequences.count > DatagramQueue.most)
    }

    @Test("a name is still the same the thousandth time, after any number of others", arguments: [false, true])
    func repeatedNames(byConnection: Bool) throws {
        let monitor = TrafficMonitor()
        let filter = TrafficFilter(exclude: [.init(path: "/private")])
        try monitor.start(.init(socketPath: "/nowhere", filter: filter))
        let reporter = TrafficReporter(monitor, role: .client)
        let name = { (host: String, target: String, template: String?) in
            let name =
                byConnection
                ? reporter.name(
                    of: .init(method: "GET", target: target, host: host),
                    template.map { .template($0) } ?? .path
                )
                : monitor.name(method: "GET", host: host, target: target, template: template)
            return name.map { $0.host + $0.route }
        }
        for round in 0..<3 {
            for index in 0..<700 {
                #expect(name("h:80", "/users/\(index)", nil) == "h/users/{id}")
                #expect(name("h:80", "/private/\(index)", nil) == nil)
                #expect(name("h", "/a?\(index)", nil) == "h/a")
                #expect(name("h", "/users/\(index)", "/t\(round)") == "h/t\(round)")
                #expect(name("h", "/private/\(index)", "/t\(round)") == nil)
                #expect(name("h", "http://h/private/\(index)", nil) == nil && name("h", "/private?\u{301}", nil) == nil)
            }
        }
        monitor.stop()
        #expect(name("h:80", "/users/1", nil) == nil)
    }

    /// At once.
    private static func send(_ exchange: UInt64, _ sender: ReportSender) {
        sender.send([.exchange(.request(exchange))])
        sender.flush()
    }

    @Test("a daemon that comes, goes and comes again gets the reports of the time when it runs")
    func restartedDaemon() async throws {
        let (clock, path) = (TestClock(), ReportReceiver.freshPath())
        let sender = ReportSender(path: path) { clock.now }
        let send = { Self.send($0, sender) }
        send(1)  // there is none: quiet for a second
        var daemon: ReportReceiver? = try ReportReceiver(path: path)
        send(2)
        clock.advance(by: ReportSender.retryNanoseconds)
        send(3)
        #expect(try await daemon?.records(1).records == [.exchange(.request(3))])
        daemon = nil
        send(4)
        clock.advance(by: ReportSender.retryNanoseconds)
        daemon = try ReportReceiver(path: path)
        send(5)
        let last = try #require(daemon)
        #expect(try await last.records(1).records == [.exchange(.request(5))])
        #expect(sender.droppedRecords == 0)
    }

    // MARK: Whether a daemon or an observer listens

    @Test("the sender at first assumes a daemon, then looks for one each second, and says at once when it finds one")
    func presence() async throws {
        let (clock, path) = (TestClock(), ReportReceiver.freshPath())
        let sender = ReportSender(path: path) { clock.now }
        let send = { Self.send($0, sender) }
        clock.advance(by: ReportSender.patienceNanoseconds - 1)
        #expect(sender.hasDaemon)
        clock.advance(by: 1)
        #expect(!sender.hasDaemon)
        // The monitor looked a moment ago.
        clock.advance(by: ReportSender.retryNanoseconds - 2)
        send(1)  // there is none: quiet for a second
        let daemon = try ReportReceiver(path: path)
        #expect(!sender.hasDaemon)
        clock.advance(by: 1)
        #expect(sender.hasDaemon)
        send(2)
        #expect(try await daemon.everything().records == [.exchange(.request(2))])
    }

    @Test("a daemon that takes reports, or has no room for them, is there; a daemon that is gone was there")
    func presenceBySending() throws {
        let (clock, path) = (TestClock(), ReportReceiver.freshPath())
        // Nothing is sent but by the test.
        let makeSender = { ReportSender(path: path, delay: .seconds(3_600)) { clock.now } }
        let (sender, other) = (makeSender(), makeSender())
        let send = { Self.send(1, sender) }
        do {
            let daemon = try ReportReceiver(path: path)
            clock.advance(by: ReportSender.patienceNanoseconds)
            withExtendedLifetime(daemon) { send() }
        }
        // No matter how long nothing was sent: the daemon may be gone only for a moment.
        clock.advance(by: 360 * ReportSender.patienceNanoseconds)
        #expect(sender.hasDaemon)
        send()
        clock.advance(by: ReportSender.patienceNanoseconds - 1)
        #expect(sender.hasDaemon)
        clock.advance(by: 1)
        #expect(!sender.hasDaemon)
        clock.advance(by: ReportSender.retryNanoseconds)
        do {
            let daemon = try ReportReceiver(path: path)
            #expect(sender.hasDaemon)
            // The daemon hangs. Its queue holds net.unix.max_dgram_qlen datagrams, and the test sends more.
            while sender.droppedRecords == 0 { send() }
            clock.advance(by: ReportSender.patienceNanoseconds)
            withExtendedLifetime(daemon) {
                #expect(other.hasDaemon)
                send()
            }
        }
        clock.advance(by: ReportSender.patienceNanoseconds)
        #expect(sender.hasDaemon && other.hasDaemon)
        clock.advance(by: ReportSender.patienceNanoseconds)
        #expect(!sender.hasDaemon && !other.hasDaemon)
    }

    @Test("no daemon: no file, a plain file, a stream socket, the socket of a daemon that was killed")
    func noDaemon() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "report-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = { (name: String) in folder.appending(path: name).path }
        try Data().write(to: URL(filePath: path("file")))
        let stream = try ReportReceiver(path: path("stream"), isStream: true)
        do {
            // A second name for the socket's file. This name stays when the daemon ends.
            let daemon = try ReportReceiver(path: path("daemon"))
            try FileManager.default.linkItem(atPath: daemon.path, toPath: path("killed"))
            #expect(ReportSocket.isDaemon(at: path("killed")) && ReportSocket.isDaemon(at: daemon.path))
        }
        // A process that another test begins just now has the socket until its exec.
        #expect(try await eventually { !ReportSocket.isDaemon(at: path("killed")) })
        for name in ["daemon", "file", "", String(repeating: "a", count: 108)] {
            #expect(!ReportSocket.isDaemon(at: path(name)), "\(name)")
        }
        #expect(!ReportSocket.isDaemon(at: stream.path))
    }

    @Test("observers count as listeners; a stopped monitor has none, but counts connections for a later start")
    func listeners() throws {
        let clock = TestClock()
        let monitor = TrafficMonitor()
        #expect(!monitor.hasListener && monitor.countsConnections)
        var configuration = TrafficMonitor.Configuration(socketPath: "/nowhere/report.sock")
        configuration.clock = { clock.now }
        try monitor.start(configuration)
        #expect(monitor.hasListener && monitor.countsConnections)
        clock.advance(by: ReportSender.patienceNanoseconds)
        #expect(!monitor.hasListener && !monitor.countsConnections)
        monitor.stop()
        #expect(!monitor.hasListener && monitor.countsConnections)
        configuration.observers = [Named("a", Seen())]
        try monitor.start(configuration)
        clock.advance(by: ReportSender.patienceNanoseconds)
        #expect(monitor.hasListener && monitor.countsConnections)
    }
}

private final class Seen: Sendable {
    let names = Mutex<[String]>([])
}

private struct Named: TrafficObserver {
    let name: String
    let seen: Seen

    init(_ name: String, _ seen: Seen) {
        self.name = name
        self.seen = seen
    }

    func observe(_ record: Report.Record) {
        guard case .exchange(let exchange) = record else { return }
        self.seen.names.withLock { $0.append("\(self.name)\(exchange.number)") }
    }
}
