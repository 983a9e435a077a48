import Foundation
import FoundationNetworking
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitURLSession

/// What an app and its servers get, with TrafficKit and without.
@Suite("URLSession with TrafficKit and without")
struct SameResultTests {
    enum Client: CaseIterable, Sendable {
        case plain, wrapped, wrappedAndStopped, observed, observedAndWrapped
    }

    struct Result: Hashable {
        var status: Int?
        var fields: [String: String]?
        var body: Data?
        var code: Int?
    }

    private static let bodies = [nil, Data(), Data("a=b".utf8), Data(repeating: 7, count: 70_000)]
    private static let targets = [
        "", "/", "?q", "/bytes/0", "/bytes/1?a=b%20c&d", "/bytes/100000", "/echo", "/gzip", "/chunked", "/status/204",
        "/status/304", "/status/400", "/status/404", "/status/500", "/to/300", "/to/301", "/to/302", "/to/303",
        "/to/307", "/to/308", "/login", "/close", "/cut", "/bytes/10/../20/./",
    ]

    private static func fetch(_ client: Client, _ port: Int, _ records: Records) async throws -> [Result] {
        let monitor = TrafficMonitor()
        if client != .wrappedAndStopped {
            try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        }
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpAdditionalHeaders = ["X-Additional": "1"]
        if client == .observed || client == .observedAndWrapped { configuration.observeTraffic(monitor: monitor) }
        let isWrapped = client != .plain && client != .observed
        let plain = isWrapped ? nil : URLSession(configuration: configuration)
        let wrapped = isWrapped ? TrafficSession(configuration: configuration, monitor: monitor) : nil
        defer {
            plain?.finishTasksAndInvalidate()
            wrapped?.finishTasksAndInvalidate()
        }
        var results: [Result] = []
        for target in Self.targets {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
                for body in Self.bodies {
                    // URLSession refuses this request and logs a message, so one target is enough.
                    if method == "GET" && body?.isEmpty == false && target != "/echo" { continue }
                    var request = try SerialTests.request("http://localhost:\(port)\(target)", method, body: body)
                    request.setValue("v", forHTTPHeaderField: "X-Own")
                    let isUpload = body != nil && method == "PUT"
                    results.append(
                        await Self.result {
                            let body = body ?? Data()
                            return switch (wrapped, plain, isUpload) {
                            case (let session?, _, true): try await session.upload(for: request, from: body)
                            case (let session?, _, false): try await session.data(for: request)
                            case (_, let session?, true): try await session.upload(for: request, from: body)
                            default: try await (plain ?? .shared).data(for: request)
                            }
                        }
                    )
                }
            }
        }
        return results
    }

    private static func result(_ body: () async throws -> (Data, URLResponse)) async -> Result {
        do {
            let (data, response) = try await body()
            let http = response as? HTTPURLResponse
            let fields = http?.allHeaderFields.map { (String(describing: $0.key), String(describing: $0.value)) } ?? []
            return Result(
                status: http?.statusCode,
                fields: Dictionary(fields) { first, _ in first },
                body: data
            )
        } catch {
            return Result(code: (error as? URLError)?.code.rawValue)
        }
    }

    /// The request without the port. Fields and cookies are sorted, because they come in the order of a dictionary.
    private static func normalized(_ request: ScriptedServer.Request, _ port: Int) -> ScriptedServer.Request {
        let fields = request.fields.map { field in
            guard field.hasPrefix("Cookie: ") else { return field.replacing("localhost:\(port)", with: "localhost") }
            return "Cookie: " + field.dropFirst(8).split(separator: "; ").sorted().joined(separator: "; ")
        }
        return .init(head: ([request.line] + fields).joined(separator: "\n"), body: request.body)
    }

    @Test("the same answers, errors, requests and connections, of 400 requests, with cookies and redirects")
    func same() async throws {
        var expected: (results: [Result], requests: [ScriptedServer.Request], connections: Int, idle: Int)?
        for client in Client.allCases {
            let server = try ScriptedServer()
            let records = Records()
            let results = try await Self.fetch(client, server.port, records)
            let requests = server.requests.map { Self.normalized($0, server.port) }
            server.stop()
            guard let plain = expected else {
                expected = (results, requests, server.connections, server.idleConnections)
                #expect(requests.contains { $0.head.contains("Cookie: s=1; t=2") })
                continue
            }
            #expect(results.count == plain.results.count && requests.count == plain.requests.count)
            for (index, (one, other)) in zip(results, plain.results).enumerated() {
                #expect(one == other, "\(client) \(index)")
            }
            for (one, other) in zip(requests, plain.requests) { #expect(one == other, "\(client)") }
            #expect(abs(server.connections - plain.connections) <= max(server.idleConnections, plain.idle))
            switch client {
            case .plain, .wrappedAndStopped: #expect(records.requests.isEmpty && records.outcomes.isEmpty)
            case .wrapped:
                #expect(records.requests.count == requests.count && records.outcomes.count >= requests.count)
            case .observed: #expect(records.requests.count == results.count && records.outcomes.isEmpty)
            case .observedAndWrapped: #expect(records.requests.count == requests.count + results.count)
            }
        }
    }
}
