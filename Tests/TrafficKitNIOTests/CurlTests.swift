import Foundation
import Testing
import TrafficKitTestSupport
import TrafficReport

/// A server of ours, and curl, which makes its own counts.
@Suite("HTTP/1.1 server against curl", .serialized)
struct CurlTests {
    @Test(
        "requests and responses have the bytes that curl counts",
        arguments: [
            (["-H", "Cookie: k=v; l=w"], "length/0"), ([], "length/1"), ([], "length/100000"), ([], "chunked/0"),
            ([], "chunked/100000"), (["--head"], "length/5000"), ([], "status/204"), ([], "status/304"),
            ([], "status/404?secret=1"), (["-X", "DELETE"], "status/503"),
            // The server closes as soon as its last write is done.
            (["-H", "Connection: close"], "chunked/5000"),
        ] as [([String], String)]
    )
    func transfers(options: [String], path: String) async throws {
        let server = try await InstrumentedServer()
        let transfer = try #require(try await Curl.run(options, [server.url + "/" + path]).first)
        try await server.stop()
        let request = try #require(server.records.requests.first)
        let response = try #require(server.records.responses.first)
        #expect(server.records.requests.count == 1 && server.records.responses.count == 1)
        #expect(request.messageBytes == transfer.requestBytes && request.bodyBytes == 0)
        #expect(request.interval == .init(from: 0, to: transfer.requestBytes))
        #expect(UInt64(response.lineBytes) + UInt64(response.headerBytes) == transfer.headerBytes)
        #expect(response.bodyBytes == transfer.bodyBytes)
        #expect(response.status == transfer.status)
        #expect(response.interval == .init(from: 0, to: response.messageBytes))
        #expect(response.cookieBytes == 17 + 25)
        #expect(request.cookieBytes == (options.contains("Cookie: k=v; l=w") ? 18 : 0))
        #expect(request.cookie != 0 && request.cookie == response.cookie)
        #expect(request.role == .server && request.version == .http1_1 && request.quality == .exact)
        #expect(!request.route.contains("secret"))
        let ending: Report.Ending = transfer.status >= 500 ? .http5xx : transfer.status >= 400 ? .http4xx : .ok
        #expect(server.records.outcomes.map(\.ending) == [ending])
    }

    @Test(
        "uploads: with a length, in chunks, after 100-continue",
        arguments: [
            ["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked", "-H", "Expect:"], ["-H", "Expect: 100-continue"],
        ]
    )
    func uploads(options: [String]) async throws {
        let server = try await InstrumentedServer()
        let file = FileManager.default.temporaryDirectory.appending(path: "upload-\(UUID().uuidString)")
        try Data(repeating: 7, count: 3_000_007).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let transfer = try #require(
            try await Curl.run(options + ["-T", file.path], [server.url + "/length/3"]).first
        )
        try await server.stop()
        let request = try #require(server.records.requests.first)
        let response = try #require(server.records.responses.first)
        #expect(request.bodyBytes == 3_000_007)
        #expect(transfer.uploadBytes == request.bodyBytes + request.framingBytes)
        #expect(UInt64(request.lineBytes) + UInt64(request.headerBytes) == transfer.requestBytes)
        #expect((request.framingBytes > 0) == options.contains("Transfer-Encoding: chunked"))
        #expect(request.declaredBodyBytes == (options.contains("Transfer-Encoding: chunked") ? nil : 3_000_007))
        // With 100-continue curl counts the interim response as headers, and so do we.
        #expect(UInt64(response.lineBytes) + UInt64(response.headerBytes) == transfer.headerBytes)
        #expect(response.bodyBytes == transfer.bodyBytes)
    }

    @Test("the intervals of 200 exchanges on one connection follow each other")
    func keepAlive() async throws {
        let server = try await InstrumentedServer()
        let paths = (0..<200).map { $0.isMultiple(of: 2) ? "/length/\($0)" : "/chunked/\($0)" }
        let transfers = try await Curl.run([], paths.map { server.url + $0 })
        try await server.stop()
        #expect(transfers.map(\.connections).reduce(0, +) == 1)
        let (requests, responses) = (server.records.requests, server.records.responses)
        #expect(requests.map(\.messageBytes) == transfers.map(\.requestBytes))
        #expect(responses.map(\.bodyBytes) == transfers.map(\.bodyBytes))
        #expect(Set(requests.map(\.cookie)).count == 1)
        for messages in [requests, responses] {
            #expect(messages.first?.interval.from == 0)
            for (one, next) in zip(messages, messages.dropFirst()) { #expect(one.interval.to == next.interval.from) }
            #expect(messages.allSatisfy { $0.messageBytes == $0.interval.bytes })
        }
        #expect(Set(requests.map(\.route)) == ["/length/{id}", "/chunked/{id}"])
    }

    @Test("a large download, to the byte", .timeLimit(.minutes(60)))
    func large() async throws {
        let server = try await InstrumentedServer()
        let proxy = try CountingProxy(to: server.port)
        let transfers = try await Curl.run([], ["http://127.0.0.1:\(proxy.port)/length/268435456"])
        let bytes = await proxy.stop()
        try await server.stop()
        #expect(transfers.map(\.bodyBytes) == [268_435_456])
        #expect(server.records.bytes(role: .server) == bytes.first && bytes.count == 1)
        let response = try #require(server.records.responses.first)
        #expect(response.bodyBytes == 268_435_456 && response.declaredBodyBytes == 268_435_456)
        #expect(response.interval == .init(from: 0, to: response.messageBytes) && !response.isIncomplete)
        #expect(transfers.map(\.headerBytes) == [UInt64(response.lineBytes) + UInt64(response.headerBytes)])
        #expect(server.records.connections.isEmpty)
    }

    @Test("100 pipelined requests in pieces of arbitrary length")
    func pipelined() async throws {
        let server = try await InstrumentedServer()
        let proxy = try CountingProxy(to: server.port)
        let requests = (0..<100).map { index in
            "POST /\(index.isMultiple(of: 3) ? "chunked" : "length")/\(index * 37) HTTP/1.1\r\nHost: h\r\n"
                + "Content-Length: \(index)\r\n" + (index == 99 ? "Connection: close\r\n\r\n" : "\r\n")
                + String(repeating: "b", count: index)
        }
        let stream = Array(requests.joined().utf8)
        let answers = try await RawConnection.open(to: proxy.port) { connection in
            var rest = stream[...]
            var size = 0
            while !rest.isEmpty {
                // Pieces of all lengths, from 1 to more than the length of a request.
                size = size % 199 + 1
                connection.send(rest.prefix(size))
                rest = rest.dropFirst(size)
            }
            return connection.readToEnd()
        }
        let bytes = await proxy.stop()
        try await server.stop()
        #expect(bytes == [.init(toServer: UInt64(stream.count), toClient: UInt64(answers.count))])
        #expect(server.records.bytes(role: .server) == bytes.first && server.records.connections.isEmpty)
        #expect(server.records.requests.map(\.messageBytes) == requests.map { UInt64($0.utf8.count) })
        #expect(server.records.requests.map(\.bodyBytes) == (0..<100).map { UInt64($0) })
        #expect(server.records.responses.map(\.bodyBytes) == (0..<100).map { UInt64($0 * 37) })
        for messages in [server.records.requests, server.records.responses] {
            #expect(messages.first?.interval.from == 0)
            for (one, next) in zip(messages, messages.dropFirst()) { #expect(one.interval.to == next.interval.from) }
            #expect(messages.allSatisfy { $0.messageBytes == $0.interval.bytes && $0.quality == .exact })
        }
        #expect(server.records.requests.map(\.number) == server.records.responses.map(\.number))
        #expect(server.records.outcomes.map(\.ending) == Array(repeating: .ok, count: 100))
    }
}
