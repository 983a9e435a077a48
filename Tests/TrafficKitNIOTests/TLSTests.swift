import Foundation
import NIOSSL
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficReport

/// A server of ours with TLS, clients that do not know our library, and a proxy between them that counts the socket's
/// bytes.
@Suite("HTTP/1.1 server with TLS")
struct TLSTests {
    /// A cipher that a client may offer, and the bytes that a record then adds to its plaintext. 0: they differ.
    struct Cipher: Sendable, CustomTestStringConvertible {
        var options: [String]
        var overhead: UInt64

        var testDescription: String { self.options.joined(separator: " ") }

        static let tls13 = Cipher(options: ["--tlsv1.3"], overhead: 22)
        static let all = [
            tls13,
            Cipher(options: ["--tlsv1.3", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"], overhead: 22),
            Cipher(options: ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"], overhead: 29),
            Cipher(options: ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"], overhead: 21),
            Cipher(options: ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-SHA"], overhead: 0),
        ]
    }

    private func server() async throws -> InstrumentedServer {
        let certificates = try await Certificates.local
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
        )
        configuration.cipherSuites =
            "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-SHA"
        return try await InstrumentedServer(tls: configuration)
    }

    private func curl(_ options: [String], _ proxy: CountingProxy, _ paths: [String]) async throws -> [Curl.Transfer] {
        let authority = try await Certificates.local.authority
        let urls = paths.map { "https://localhost:\(proxy.port)\($0)" }
        return try await Curl.run(["--http1.1", "--cacert", authority] + options, urls)
    }

    /// Every byte of every socket is explained, and belongs to one place.
    private func expectEveryByte(_ records: Records, _ bytes: [CountingProxy.Bytes]) {
        let explained = records.bytes(role: .server)
        #expect(explained.toServer == bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == bytes.reduce(0) { $0 + $1.toClient })
        #expect(records.connections.count == bytes.count)
        for messages in [records.requests, records.responses] {
            for message in messages { #expect(message.interval.bytes == message.messageBytes + message.tlsBytes) }
            for ofOne in Dictionary(grouping: messages, by: \.cookie).values {
                #expect(zip(ofOne, ofOne.dropFirst()).allSatisfy { $0.interval.to <= $1.interval.from })
            }
        }
    }

    @Test("60 exchanges on one connection: plaintext as curl counts it, the rest is TLS", arguments: Cipher.all)
    func keepAlive(cipher: Cipher) async throws {
        let server = try await self.server()
        let proxy = try CountingProxy(to: server.port)
        let paths = (0..<60).map { $0.isMultiple(of: 2) ? "/length/\($0 * 1_000)" : "/chunked/\($0 * 1_000)" }
        let transfers = try await self.curl(cipher.options, proxy, paths)
        let bytes = await proxy.stop()
        try await server.stop()
        #expect(bytes.count == 1)
        self.expectEveryByte(server.records, bytes)
        let (requests, responses) = (server.records.requests, server.records.responses)
        #expect(requests.map(\.messageBytes) == transfers.map(\.requestBytes))
        #expect(responses.map(\.bodyBytes) == transfers.map(\.bodyBytes))
        #expect(responses.map { UInt64($0.lineBytes) + UInt64($0.headerBytes) } == transfers.map(\.headerBytes))
        let connection = try #require(server.records.connections.values.first)
        #expect(connection.received.tls > 200 && connection.sent.tls > 500)
        guard cipher.overhead > 0 else { return }
        #expect((requests + responses).allSatisfy { $0.quality == .exact })
        #expect(requests.allSatisfy { $0.tlsBytes == cipher.overhead })
        #expect(responses.allSatisfy { $0.tlsBytes > 0 && $0.tlsBytes.isMultiple(of: cipher.overhead) })
    }

    @Test(
        "an upload, in chunks or not, and a large download",
        arguments: [Cipher.all[0], Cipher.all[2], Cipher.all[4]]
    )
    func large(cipher: Cipher) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "upload-\(UUID().uuidString)")
        try Data(repeating: 7, count: 2_000_003).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        for options in [["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked", "-H", "Expect:"]] {
            let server = try await self.server()
            let proxy = try CountingProxy(to: server.port)
            let transfers = try await self.curl(
                cipher.options + options + ["-T", file.path],
                proxy,
                ["/length/3000000"]
            )
            let bytes = await proxy.stop()
            try await server.stop()
            self.expectEveryByte(server.records, bytes)
            let request = try #require(server.records.requests.first)
            let response = try #require(server.records.responses.first)
            #expect(request.bodyBytes == 2_000_003 && response.bodyBytes == 3_000_000)
            #expect(transfers.map(\.uploadBytes) == [request.bodyBytes + request.framingBytes])
            #expect(response.quality == .exact)
            // With CBC a client may end a flight with a record without plaintext.
            if cipher.overhead > 0 {
                #expect(request.quality == .exact)
                #expect(request.tlsBytes.isMultiple(of: cipher.overhead))
                #expect(response.tlsBytes.isMultiple(of: cipher.overhead))
            }
        }
    }

    @Test("100 pipelined requests in records of arbitrary length", arguments: ["-tls1_3", "-tls1_2"])
    func pipelined(version: String) async throws {
        let server = try await self.server()
        let proxy = try CountingProxy(to: server.port)
        let requests = (0..<100).map { index in
            "POST /length/\(index * 37) HTTP/1.1\r\nHost: h\r\nContent-Length: \(index)\r\n"
                + (index == 99 ? "Connection: close\r\n\r\n" : "\r\n") + String(repeating: "b", count: index)
        }
        // -split_send_frag: a record has at most this much plaintext.
        try await Tool.run(
            "openssl",
            [
                "s_client", "-quiet", version, "-max_send_frag", "1000", "-connect", "127.0.0.1:\(proxy.port)",
                "-servername", "localhost",
            ],
            input: Data(requests.joined().utf8)
        )
        let bytes = await proxy.stop()
        try await server.stop()
        self.expectEveryByte(server.records, bytes)
        #expect(server.records.requests.map(\.messageBytes) == requests.map { UInt64($0.utf8.count) })
        #expect(server.records.responses.map(\.bodyBytes) == (0..<100).map { UInt64($0 * 37) })
        #expect((server.records.requests + server.records.responses).allSatisfy { $0.quality == .exact })
        // Some requests begin and end within one record. The record counts for its first request.
        #expect(server.records.requests.contains { $0.tlsBytes == 0 })
        #expect(server.records.outcomes.map(\.ending) == Array(repeating: .ok, count: 100))
    }

    @Test("a handshake that fails counts only as TLS")
    func refused() async throws {
        let server = try await self.server()
        let proxy = try CountingProxy(to: server.port)
        let result = try await Tool.run(
            "curl",
            ["--silent", "--max-time", "600", "https://localhost:\(proxy.port)/length/1"],
            mayFail: true
        )
        #expect(result.status == 60)
        let bytes = await proxy.stop()
        try await server.stop()
        self.expectEveryByte(server.records, bytes)
        #expect(server.records.requests.isEmpty && server.records.outcomes.isEmpty)
    }
}
