import Foundation
import FoundationNetworking
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitURLSession

@Suite("TrafficSession: how exchanges end")
struct EndingTests {
    /// Returns the error's code and the reported records.
    private func run(
        _ url: String,
        _ change: (inout URLRequest) -> Void = { _ in }
    ) async throws -> (
        code: Int?, records: Records
    ) {
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        var request = try SerialTests.request(url)
        change(&request)
        var code: Int?
        try await SerialTests.use(.ephemeral, monitor) { [request] session in
            do {
                _ = try await session.data(for: request)
            } catch let error as URLError {
                code = error.code.rawValue
            }
        }
        return (code, records)
    }

    @Test("refused: no request, no response")
    func refused() async throws {
        let port = try FreePort.next()
        let (code, records) = try await self.run("http://127.0.0.1:\(port)/users/1?secret=1")
        #expect(code == -1004 && records.outcomes.map(\.ending) == [.refused])
        #expect(records.requests.isEmpty && records.responses.isEmpty)
        #expect(records.outcomes.map(\.route) == ["/users/{id}"] && records.outcomes.map(\.host) == ["127.0.0.1"])
    }

    @Test("DNS: there is no such name (RFC 6761 section 6.4)")
    func dns() async throws {
        let (code, records) = try await self.run("http://name.invalid/")
        #expect(code == -1003 && records.outcomes.map(\.ending) == [.dns] && records.requests.isEmpty)
    }

    @Test("TLS: no known authority has signed the certificate")
    func tls() async throws {
        let nginx = try await Nginx()
        let (code, records) = try await self.run("https://localhost:\(nginx.tlsPort)/")
        try await nginx.stop()
        #expect(code == -1 && records.outcomes.map(\.ending) == [.tls] && records.requests.isEmpty)
    }

    @Test("a body that is cut off")
    func cut() async throws {
        let server = try ScriptedServer()
        let (code, records) = try await self.run("http://127.0.0.1:\(server.port)/cut")
        server.stop()
        #expect(code == -1 && records.outcomes.map(\.ending) == [.truncated] && records.requests.count == 1)
        let response = try #require(records.responses.first)
        #expect(response.isIncomplete && response.declaredBodyBytes == 1_000 && response.bodyBytes == 100)
        #expect(response.status == 200 && response.quality == .inferred && response.cookie == 0)
    }

    @Test("no answer in time: a request without a response", arguments: ["/silent", "/half"])
    func timeout(path: String) async throws {
        let server = try ScriptedServer()
        var (code, records) = (nil as Int?, Records())
        // On a busy machine, a second may pass before the body of the response comes. Then it has more time.
        for seconds in sequence(first: 1.0, next: { $0 < Program.patience / .seconds(1) ? $0 * 2 : nil }) {
            (code, records) = try await self.run("http://127.0.0.1:\(server.port)\(path)") {
                $0.timeoutInterval = seconds
            }
            if path == "/silent" || records.responses.contains(where: { $0.bodyBytes > 0 }) { break }
        }
        server.stop()
        #expect(code == -1001 && records.outcomes.map(\.ending) == [.timeout] && records.requests.count == 1)
        #expect(records.responses.map(\.bodyBytes) == (path == "/half" ? [100] : []))
        #expect(records.responses.allSatisfy { $0.isIncomplete })
    }

    @Test("a cancelled exchange is no failure", arguments: ["/silent", "/half"])
    func cancelled(path: String) async throws {
        let server = try ScriptedServer()
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        try await SerialTests.use(.ephemeral, monitor) { session in
            let request = try SerialTests.request("http://127.0.0.1:\(server.port)\(path)")
            let task = Task { try await session.data(for: request) }
            for await _ in server.arrivals { break }
            task.cancel()
            let error = await #expect(throws: URLError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        server.stop()
        #expect(records.outcomes.map(\.ending) == [.cancelled] && records.requests.count == 1)
    }

    @Test("a task that is cancelled before it begins")
    func cancelledAtOnce() async throws {
        let server = try ScriptedServer()
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        try await SerialTests.use(.ephemeral, monitor) { session in
            let request = try SerialTests.request("http://127.0.0.1:\(server.port)/silent")
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await session.data(for: request)
            }
            let error = await #expect(throws: URLError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        server.stop()
        #expect(records.outcomes.map(\.ending) == [.cancelled])
    }

    @Test("a connection that ends with its exchange leaves no socket to ask")
    func closed() async throws {
        let server = try ScriptedServer()
        let (code, records) = try await self.run("http://127.0.0.1:\(server.port)/close")
        server.stop()
        #expect(code == nil && records.outcomes.map(\.ending) == [.ok])
        let response = try #require(records.responses.first)
        #expect(response.bodyBytes == 7 && response.cookie == 0 && response.quality == .inferred)
        #expect(response.interval.isEmpty)
    }

    @Test("with parallel exchanges to one port, the bytes of each exchange are unknown")
    func parallel() async throws {
        let server = try ScriptedServer()
        let run = try await SerialTests.run(to: server.port) { session, url in
            // No exchange ends before all have begun.
            let requests = try (0..<4).map { _ in try SerialTests.request(url + "/silent") }
            let tasks = requests.map { request in Task { try await session.data(for: request) } }
            var arrivals = server.arrivals.makeAsyncIterator()
            for _ in 0..<4 { _ = await arrivals.next() }
            let (data, _) = try await session.data(for: SerialTests.request(url + "/bytes/1000"))
            #expect(data.count == 1_000)
            for task in tasks {
                task.cancel()
                _ = await task.result
            }
            _ = try await session.data(for: SerialTests.request(url + "/bytes/2000"))
        }
        server.stop()
        let responses = run.records.responses
        #expect(responses.map(\.bodyBytes) == [1_000, 2_000])
        #expect(responses.map(\.quality) == [.inferred, .exact])
        #expect(responses.map { $0.cookie != 0 } == [false, true])
        #expect(run.records.outcomes.map(\.ending).filter { $0 == .cancelled }.count == 4)
        let others = run.records.requests.filter { $0.route == "/silent" }
        #expect(others.count == 4 && others.allSatisfy { $0.cookie == 0 && $0.quality == .inferred })
    }

    @Test("if an unreported session uses the same port, the bytes of each exchange are unknown, too")
    func disturbed() async throws {
        let server = try ScriptedServer()
        let run = try await SerialTests.run(to: server.port) { session, url in
            let request = try SerialTests.request(url + "/held")
            let task = Task { try await session.data(for: request) }
            for await _ in server.arrivals { break }
            let other = URLSession(configuration: .ephemeral)
            _ = try await other.data(for: SerialTests.request(url + "/bytes/1000"))
            server.release()
            let (data, _) = try await task.value
            #expect(data == Data("yes".utf8))
            other.finishTasksAndInvalidate()
        }
        server.stop()
        #expect(run.records.requests.map(\.cookie) == [0] && run.records.responses.map(\.cookie) == [0])
        #expect(run.records.responses.map(\.quality) == [.inferred] && run.records.responses.map(\.bodyBytes) == [3])
    }

    @Test("after the server has closed the connection, the next exchange has a new connection")
    func stale() async throws {
        let server = try ScriptedServer()
        let (monitor, records) = (TrafficMonitor(), Records())
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        try await SerialTests.use(.ephemeral, monitor) { session in
            for _ in 0..<10 {
                let request = try SerialTests.request("http://127.0.0.1:\(server.port)/last")
                let (data, _) = try await session.data(for: request)
                #expect(data == Data("bye".utf8))
            }
        }
        server.stop()
        #expect(records.requests.count == 10 && Set(records.requests.map(\.cookie)).count == 10)
        for message in records.requests + records.responses {
            #expect(message.interval.from == 0 && message.interval.bytes == message.messageBytes)
            #expect(message.quality == .exact)
        }
    }
}
