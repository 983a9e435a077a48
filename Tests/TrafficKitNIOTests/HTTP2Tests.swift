import Foundation
import NIOSSL
import Testing
import TrafficKitTestSupport
import TrafficReport

/// A server of ours and the clients of nghttp2, which make their own counts of frames. A proxy between them counts the
/// socket's bytes.
@Suite("HTTP/2 server against nghttp and h2load")
struct HTTP2Tests {
    enum Security: Sendable, CaseIterable {
        case none, tls12, tls13

        /// What a record adds to its plaintext, with AES-GCM.
        var overhead: UInt64 { self == .tls12 ? 29 : 22 }
    }

    private struct Run {
        var records: Records
        var bytes: [CountingProxy.Bytes]
    }

    private func run(_ security: Security, _ body: (_ url: String) async throws -> Void) async throws -> Run {
        var tls: TLSConfiguration?
        if security != .none {
            let certificates = try await Certificates.local
            tls = .makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
            )
            tls?.applicationProtocols = ["h2", "http/1.1"]
            tls?.maximumTLSVersion = security == .tls12 ? .tlsv12 : .tlsv13
        }
        return try await Nghttp.patiently {
            let server = try await InstrumentedServer(tls: tls, isHTTP2: tls == nil)
            let proxy = try CountingProxy(to: server.port)
            do {
                try await body("\(security == .none ? "http" : "https")://localhost:\(proxy.port)")
            } catch {
                _ = await proxy.stop()
                try await server.stop()
                throw error
            }
            let bytes = await proxy.stop()
            try await server.stop()
            return Run(records: server.records, bytes: bytes)
        }
    }

    /// Every byte of every socket is explained, once.
    private func expectEveryByte(_ run: Run, _ security: Security) {
        let explained = run.records.bytes(role: .server)
        #expect(explained.toServer == run.bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == run.bytes.reduce(0) { $0 + $1.toClient })
        #expect(run.records.connections.count == run.bytes.count)
        for message in run.records.requests + run.records.responses {
            #expect(message.interval.bytes == message.messageBytes + message.tlsBytes && message.interval.isPossible)
            #expect(message.cookie != 0 && message.role == .server && message.version == .http2)
            #expect(message.quality == .exact && !message.isIncomplete && message.host == "localhost")
            #expect(message.tlsBytes.isMultiple(of: security.overhead) && (security != .none || message.tlsBytes == 0))
        }
    }

    @Test("60 streams at a time have the frames that nghttp prints", arguments: Security.allCases)
    func frames(security: Security) async throws {
        var frames = Nghttp.Frames()
        let run = try await self.run(security) { url in
            let urls = (0..<60).map { "\(url)/\($0 % 3 == 0 ? "status/404" : "length/\($0 * 3_000)")?n=\($0)" }
            frames = try await Nghttp.fetch(["-H", "cookie: k=v"], urls)
        }
        #expect(run.bytes.count == 1)
        self.expectEveryByte(run, security)
        let (requests, responses) = (run.records.requests, run.records.responses)
        #expect(requests.count == 60 && responses.count == 60)
        // By stream, in the order in which the requests came. nghttp numbers its streams in the order of its arguments.
        let streams = frames.sent.keys.sorted()
        let byExchange = Dictionary(uniqueKeysWithValues: responses.map { ($0.number, $0) })
        for (stream, request) in zip(streams, requests.sorted { $0.number < $1.number }) {
            #expect(Self.lengths(of: request) == frames.sent[stream])
            let response = try #require(byExchange[request.number])
            #expect(Self.lengths(of: response) == frames.received[stream])
        }
        #expect(Set(requests.map(\.route)) == ["/status/{id}", "/length/{id}"])
        #expect(Set(run.records.outcomes.map(\.ending)) == [.ok, .http4xx])
        // The messages are interleaved: some message has frames of others between its own frames.
        #expect(responses.contains { $0.interval.to - $0.interval.from > $0.interval.bytes })
        #expect(requests.allSatisfy { $0.lineBytes > 0 && $0.cookieBytes > 0 && $0.headerBytes >= $0.cookieBytes })
        let connection = try #require(run.records.connections.values.first)
        // At least the preface, the settings and their acknowledgements.
        #expect(connection.received.framing >= 24 + 9 + 9 && connection.sent.framing >= 9 + 9)
        #expect((connection.received.tls > 0) == (security != .none))
    }

    private static func lengths(of message: MessagePart) -> Nghttp.Message {
        Nghttp.Message(
            header: UInt64(message.lineBytes) + UInt64(message.headerBytes),
            body: message.bodyBytes,
            framing: message.framingBytes
        )
    }

    @Test("1,000 exchanges on 3 connections, 50 streams at a time, as h2load counts them", arguments: Security.allCases)
    func load(security: Security) async throws {
        var load: Nghttp.Load?
        let run = try await self.run(security) { url in
            load = try await Nghttp.load(["-n", "1000", "-c", "3", "-m", "50"], "\(url)/length/777")
        }
        #expect(run.bytes.count == 3 && load?.succeeded == 1_000)
        self.expectEveryByte(run, security)
        let responses = run.records.responses
        #expect(responses.count == 1_000 && run.records.requests.count == 1_000)
        #expect(responses.reduce(0) { $0 + UInt64($1.lineBytes) + UInt64($1.headerBytes) } == load?.headers)
        #expect(responses.reduce(0) { $0 + $1.bodyBytes } == load?.data && load?.data == 777_000)
    }

    @Test("an upload with padding, and a large one", arguments: Security.allCases)
    func upload(security: Security) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "upload-\(UUID().uuidString)")
        try Data(repeating: 7, count: 3_000_007).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var frames = Nghttp.Frames()
        let run = try await self.run(security) { url in
            frames = try await Nghttp.fetch(["--padding=17", "--data=\(file.path)"], ["\(url)/length/5"])
        }
        self.expectEveryByte(run, security)
        let request = try #require(run.records.requests.first)
        #expect(Self.lengths(of: request) == frames.sent.values.first)
        #expect(request.bodyBytes == 3_000_007 && request.declaredBodyBytes == 3_000_007)
        #expect(request.method == "POST" && request.framingBytes > 9)
        #expect(run.records.responses.map(\.bodyBytes) == [5])
    }

    @Test("a client that asks for HTTP/1.1 gets it from the same server")
    func negotiated() async throws {
        let authority = try await Certificates.local.authority
        let run = try await self.run(.tls13) { url in
            for version in ["--http1.1", "--http2"] {
                _ = try await Curl.run([version, "--cacert", authority], ["\(url)/length/100", "\(url)/length/200"])
            }
        }
        #expect(run.bytes.count == 2)
        let explained = run.records.bytes(role: .server)
        #expect(explained.toServer == run.bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == run.bytes.reduce(0) { $0 + $1.toClient })
        #expect(run.records.responses.map(\.version) == [.http1_1, .http1_1, .http2, .http2])
        #expect(run.records.responses.map(\.bodyBytes) == [100, 200, 100, 200])
        #expect(run.records.outcomes.allSatisfy { $0.ending == .ok })
    }
}
