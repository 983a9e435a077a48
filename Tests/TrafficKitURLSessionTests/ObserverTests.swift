import Foundation
import FoundationNetworking
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitURLSession

@Suite("An observed session")
struct ObserverTests {
    /// Answers requests to `mock.example` without a server.
    private final class Mock: URLProtocol {
        override class func canInit(with request: URLRequest) -> Bool { request.url?.host == "mock.example" }
        override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }
        override func startLoading() {
            guard let url = self.request.url else { return }
            let response = URLResponse(url: url, mimeType: nil, expectedContentLength: 4, textEncodingName: nil)
            self.client?.urlProtocol(self, didReceive: response, cacheStoragePolicy: .notAllowed)
            self.client?.urlProtocol(self, didLoad: Data("mock".utf8))
            self.client?.urlProtocolDidFinishLoading(self)
        }
        override func stopLoading() {}
    }

    private static func monitor(_ filter: TrafficFilter = TrafficFilter()) throws -> (TrafficMonitor, Records) {
        let (monitor, records) = (TrafficMonitor(), Records())
        try monitor.start(.init(socketPath: "/nowhere/report.sock", filter: filter, observers: [records]))
        return (monitor, records)
    }

    @Test("each task is reported once, with its request's values; the app's own protocol class still works")
    func once() async throws {
        let server = try ScriptedServer()
        let (monitor, records) = try Self.monitor()
        let configuration = URLSessionConfiguration.ephemeral
        configuration.protocolClasses = [Mock.self] + (configuration.protocolClasses ?? [])
        let count = configuration.protocolClasses?.count ?? 0
        configuration.observeTraffic(monitor: monitor)
        configuration.observeTraffic(monitor: monitor)
        #expect(configuration.protocolClasses?.count == count + 1)
        let session = URLSession(configuration: configuration)
        let url = "http://127.0.0.1:\(server.port)"
        let (mock, _) = try await session.data(for: SerialTests.request("http://mock.example/users/1"))
        #expect(mock == Data("mock".utf8))
        let (big, _) = try await session.data(for: SerialTests.request(url + "/bytes/300000?secret=1"))
        #expect(big.count == 300_000)
        let body = Data(repeating: 7, count: 100_000)
        let (same, _) = try await session.data(for: SerialTests.request(url + "/echo", "POST", body: body))
        #expect(same == body)
        let (other, _) = try await session.upload(for: SerialTests.request(url + "/echo", "PUT"), from: body)
        #expect(other == body)
        _ = try await session.data(for: SerialTests.request(url + "/to/302"))
        session.finishTasksAndInvalidate()
        server.stop()
        let requests = records.requests
        #expect(requests.map(\.route) == ["/users/{id}", "/bytes/{id}", "/echo", "/echo", "/to/{id}"])
        #expect(requests.map(\.method) == ["GET", "GET", "POST", "PUT", "GET"])
        #expect(requests.map(\.host) == ["mock.example"] + Array(repeating: "127.0.0.1", count: 4))
        #expect(requests.map(\.bodyBytes) == [0, 0, 100_000, 0, 0])
        #expect(requests.allSatisfy { $0.cookie == 0 && $0.interval.isEmpty && $0.quality == .estimated })
        #expect(requests.allSatisfy { $0.role == .client && $0.startedAt > 0 })
        #expect(records.responses.isEmpty && records.outcomes.isEmpty)
    }

    @Test("two monitors each have their own; filters and stopping apply")
    func monitors() async throws {
        let server = try ScriptedServer()
        let (one, oneRecords) = try Self.monitor()
        let (two, twoRecords) = try Self.monitor(.init(exclude: [.init(path: "/status")]))
        let both = URLSessionConfiguration.ephemeral
        both.observeTraffic(monitor: one)
        both.observeTraffic(monitor: two)
        let onlyTwo = URLSessionConfiguration.ephemeral
        onlyTwo.observeTraffic(monitor: two)
        let url = "http://127.0.0.1:\(server.port)"
        for configuration in [both, onlyTwo] {
            let session = URLSession(configuration: configuration)
            _ = try await session.data(for: SerialTests.request(url + "/bytes/1"))
            _ = try await session.data(for: SerialTests.request(url + "/status/404"))
            session.finishTasksAndInvalidate()
        }
        two.stop()
        let session = URLSession(configuration: onlyTwo)
        _ = try await session.data(for: SerialTests.request(url + "/bytes/1"))
        session.finishTasksAndInvalidate()
        server.stop()
        #expect(oneRecords.requests.map(\.route) == ["/bytes/{id}", "/status/{id}"])
        #expect(twoRecords.requests.map(\.route) == ["/bytes/{id}", "/bytes/{id}"])
    }

    @Test(
        "a request that begins without a listener is answered but not reported; the next request is reported",
        arguments: [false, true]
    )
    func lateDaemon(isWrapped: Bool) async throws {
        let server = try ScriptedServer()
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let receiver = try daemon.come()
        let configuration = URLSessionConfiguration.ephemeral
        if !isWrapped { configuration.observeTraffic(monitor: daemon.monitor) }
        let (session, wrapped) = (
            URLSession(configuration: configuration),
            TrafficSession(configuration: configuration, monitor: daemon.monitor)
        )
        let ask = { (path: String) in
            let request = try SerialTests.request("http://127.0.0.1:\(server.port)\(path)")
            let (data, _) = try await isWrapped ? wrapped.data(for: request) : session.data(for: request)
            #expect(data.count == 5)
        }
        try await ask("/bytes/5?first")
        #expect(daemon.lookAgain())
        try await ask("/bytes/5")
        session.finishTasksAndInvalidate()
        wrapped.finishTasksAndInvalidate()
        daemon.monitor.stop()
        server.stop()
        let records = try await receiver.stop()
        #expect(records.all.count == 1 && records.requests.count == 1)
        #expect(records.responses.count == (isWrapped ? 1 : 0) && records.outcomes.count == (isWrapped ? 1 : 0))
    }
}
