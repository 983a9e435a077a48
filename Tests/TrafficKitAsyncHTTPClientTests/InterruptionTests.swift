import AsyncHTTPClient
import NIOCore
import Synchronization
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A client of ours that stops waiting for its server, with a proxy between them that counts the socket's bytes.
@Suite("AsyncHTTPClient that gives up", .timeLimit(.minutes(60)))
struct InterruptionTests {
    enum Limit: Sendable, CaseIterable {
        /// A limit for the whole request.
        case deadline
        /// A limit for the time without a byte of the response.
        case read
    }

    struct Run {
        var records: Records
        var bytes: [CountingProxy.Bytes]
        /// The head of the request, as the server has read it; empty if it had read none when the request ended.
        var head: String
    }

    /// Runs a server that gets a request, sends `answer`, and then sends nothing until the client has closed.
    private func run(
        answer: String,
        _ configure: (inout HTTPClient.Configuration) -> Void = { _ in },
        _ body: (HTTPClient, _ url: String) async throws -> Void
    ) async throws -> Run {
        let (heads, asked) = AsyncStream<String>.makeStream()
        let isAsked = Mutex(false)
        let server = try RawServer { connection in
            let head = connection.readHead()
            isAsked.withLock { $0 = $0 || !head.isEmpty }
            connection.send(answer.utf8)
            #expect(connection.readToEnd().isEmpty)
            asked.yield(head)
            asked.finish()
        }
        let proxy = try CountingProxy(to: server.port)
        let (monitor, records) = (TrafficMonitor(), Records())
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        var configuration = try await ClientTests.configuration(.none, monitor)
        configure(&configuration)
        let client = HTTPClient(configuration: configuration)
        var head = ""
        do {
            try await body(client, "http://localhost:\(proxy.port)/users/7?secret=1")
            // The end of the request closes the connection, not the end of the client.
            if isAsked.withLock(\.self) { for await it in heads { head = it } }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        let bytes = await proxy.stop()
        server.stop()
        return Run(records: records, bytes: bytes, head: head)
    }

    private func expectEveryByte(_ run: Run, answer: String) {
        #expect(run.bytes == [.init(toServer: UInt64(run.head.utf8.count), toClient: UInt64(answer.utf8.count))])
        #expect(run.records.bytes(role: .client) == run.bytes.first)
        #expect(run.records.requests.map(\.messageBytes) == [UInt64(run.head.utf8.count)])
        for message in run.records.requests + run.records.responses {
            #expect(message.interval == .init(from: 0, to: message.messageBytes))
            #expect(message.cookie != 0 && message.role == .client && message.quality == .exact)
            #expect(message.host == "localhost" && message.route == "/users/{id}")
        }
        #expect(run.records.requests.map(\.isIncomplete) == [false])
    }

    /// The connection sees that its own side closes it, but not the reason. So a time limit is `cancelled` too, as with
    /// HTTP/2.
    @Test("no answer in time: a request without a response", arguments: Limit.allCases)
    func timeout(limit: Limit) async throws {
        var (last, error) = (nil as Run?, nil as HTTPClientError?)
        // On a busy machine, the limit may end before the server has read the request, or soon after. The deadline
        // includes making the connection. Then there is more time.
        for seconds in sequence(first: 0.25, next: { $0 < Program.patience / .seconds(1) ? $0 * 2 : nil }) {
            let time = TimeAmount.nanoseconds(Int64(seconds * 1e9))
            let run = try await self.run(answer: "") {
                if limit == .read { $0.timeout.read = time }
            } _: { client, url in
                error = await #expect(throws: HTTPClientError.self) {
                    try await client.execute(
                        HTTPClientRequest(url: url),
                        timeout: limit == .read ? .minutes(10) : time
                    )
                }
            }
            last = run
            if !run.head.isEmpty, run.records.outcomes.contains(where: { $0.duration >= 150_000_000 }) { break }
        }
        let run = try #require(last)
        #expect(error == (limit == .read ? .readTimeout : .deadlineExceeded))
        self.expectEveryByte(run, answer: "")
        #expect(run.records.responses.isEmpty)
        let outcome = try #require(run.records.outcomes.first)
        #expect(run.records.outcomes.count == 1 && outcome.ending == .cancelled && outcome.status == 0)
        #expect(outcome.duration >= 150_000_000 && outcome.phases.send != nil && outcome.phases.wait == nil)
    }

    @Test("a task that is cancelled in the middle of a response")
    func cancelled() async throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 500)
        let run = try await self.run(answer: answer) { client, url in
            let (halves, half) = AsyncStream<Void>.makeStream()
            let task = Task {
                let response = try await client.execute(HTTPClientRequest(url: url), timeout: .minutes(10))
                var count = 0
                for try await piece in response.body {
                    count += piece.readableBytes
                    if count == 500 { half.finish() }
                }
            }
            for await _ in halves {}
            task.cancel()
            _ = await task.result
        }
        self.expectEveryByte(run, answer: answer)
        let response = try #require(run.records.responses.first)
        #expect(run.records.responses.count == 1 && response.isIncomplete && response.status == 200)
        #expect(response.declaredBodyBytes == 1_000 && response.bodyBytes == 500)
        #expect(run.records.outcomes.map(\.ending) == [.cancelled])
    }
}
