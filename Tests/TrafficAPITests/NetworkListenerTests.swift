import Foundation
import TestSupport
import Testing
import TrafficAPI
import TrafficFeed
import TrafficKitTestSupport
import TrafficModel
import TrustedFiles

@Suite("What the TCP listener asks of clients")
struct NetworkListenerTests {
    private static let anyPort = TrafficModel.SocketAddress(address: Fixture.address("127.0.0.1"), port: 0)

    /// A file with this text; removed at the end of `body`.
    private func withFile<Value>(
        _ text: String,
        mode: mode_t = 0o640,
        _ body: (String) async throws -> Value
    ) async throws -> Value {
        let path = FileManager.default.temporaryDirectory.appending(path: "token-\(UUID().uuidString)").path
        defer { unlink(path) }
        try Data(text.utf8).write(to: URL(filePath: path))
        try #require(chmod(path, mode) == 0)
        return try await body(path)
    }

    private func status(_ url: String, _ options: [String] = []) async throws -> String {
        let words = ["-s", "-o", "/dev/null", "-w", "%{http_code} %header{www-authenticate}"] + options + [url]
        return try await Tool.run("curl", words, mayFail: true).output
    }

    @Test("every path needs the token, and only the token as it is opens")
    func token() async throws {
        try await self.withFile("s3cret-s3cret-s3cret\nnot this") { file in
            try await TestServer.with(listen: Self.anyPort, files: .init(token: file)) { server in
                let base = "http://127.0.0.1:\(try #require(server.endpoints.tcp?.port))"
                func authorized(_ value: String) -> [String] { ["-H", "Authorization: \(value)"] }
                for path in ["/healthz", "/metrics", "/v1/processes", "/nothing"] {
                    #expect(try await self.status(base + path) == "401 Bearer", "\(path)")
                }
                for value in [
                    "Bearer s3cret-s3cret-s3cre", "Bearer s3cret-s3cret-s3cret ", "Bearer s3cret-s3cret-s3creT",
                    "Basic s3cret-s3cret-s3cret", "s3cret-s3cret-s3cret", "Bearer", "Bearer not this",
                ] where value.last != " " {
                    #expect(try await self.status(base + "/healthz", authorized(value)).hasPrefix("401"), "\(value)")
                }
                for value in ["Bearer s3cret-s3cret-s3cret", "bearer  s3cret-s3cret-s3cret"] {
                    #expect(try await self.status(base + "/healthz", authorized(value)).hasPrefix("200"), "\(value)")
                }
                // A wrong host is refused first: it says nothing of the token.
                let other = authorized("Bearer s3cret-s3cret-s3cret") + ["-H", "Host: evil.example"]
                #expect(try await self.status(base + "/healthz", other).hasPrefix("421"))
            }
        }
    }

    @Test(
        "a file that is no secret is refused, with what to do",
        arguments: [
            ("0123456789abcdef", 0o644, "chmod o="), ("0123456789abcde", 0o600, "16 or more"),
            ("", 0o600, "openssl rand"), ("0123 456789abcdef", 0o600, "without blanks"),
            (String(repeating: "x", count: 5_000), 0o600, "must be a token"),
        ] as [(String, mode_t, String)]
    )
    func badToken(text: String, mode: mode_t, reason: String) async throws {
        try await self.withFile(text, mode: mode) { file in
            let error = #expect(throws: TrustedFileError.self) {
                try NetworkListener(address: Self.anyPort, files: .init(token: file))
            }
            let text = "\(try #require(error))"
            #expect(text.contains(reason) && text.contains(file), "\(text)")
        }
    }

    @Test("files that are not there, of the wrong kind, or do not belong together are named")
    func badFiles() async throws {
        let certificates = try await Certificates.local
        let open = FileManager.default.temporaryDirectory.appending(path: "key-\(UUID().uuidString)").path
        defer { unlink(open) }
        try FileManager.default.copyItem(atPath: certificates.key, toPath: open)
        try #require(chmod(open, 0o644) == 0)
        for files in [
            NetworkListener.Files(token: "/nowhere"), .init(token: "/"),
            .init(certificate: certificates.certificate, key: open),
            .init(certificate: "/nowhere", key: certificates.key),
            .init(certificate: certificates.certificate, key: "/nowhere"),
            .init(certificate: certificates.key, key: certificates.key),
            .init(certificate: certificates.certificate, key: certificates.certificate),
            // The key of another certificate.
            .init(certificate: certificates.authority, key: certificates.key),
        ] {
            let error = #expect(throws: TrustedFileError.self) {
                try NetworkListener(address: Self.anyPort, files: files)
            }
            let text = "\(try #require(error))"
            #expect([files.token, files.certificate, files.key].contains { $0.map(text.hasPrefix) == true }, "\(text)")
        }
    }

    @Test(
        "a request names one host, and a target that is a URI is the one that counts",
        arguments: [
            ("GET /healthz", ["127.0.0.1"], "200"), ("GET /healthz", ["127.0.0.1", "evil.example"], "400"),
            ("GET /healthz", ["127.0.0.1", "127.0.0.1"], "400"), ("GET /healthz", ["[::1].evil.example"], "400"),
            ("GET http://127.0.0.1/healthz", ["127.0.0.1"], "200"),
            // RFC 9112 section 3.2.2: the Host field is ignored.
            ("GET http://evil.example/healthz", ["127.0.0.1"], "421"),
            ("GET http://evil.example", ["127.0.0.1"], "421"),
            ("GET http://evil.example?/healthz", ["127.0.0.1"], "421"),
            ("GET http://127.0.0.1/healthz", ["evil.example"], "200"), ("GET http://127.0.0.1/healthz", [], "200"),
            ("GET http://127.0.0.1/healthz", ["127.0.0.1", "127.0.0.1"], "400"),
            ("GET http://127.0.0.1@evil.example/healthz", ["127.0.0.1"], "400"),
        ]
    )
    func host(request: String, hosts: [String], status: String) async throws {
        try await TestServer.with(listen: Self.anyPort) { server in
            let fields = hosts.map { "Host: \($0)\r\n" }.joined()
            let answer = try await Tool.run(
                "bash",
                [
                    "-c", #"exec 3<>/dev/tcp/127.0.0.1/$0; printf %s "$1" >&3; head -n 1 <&3"#,
                    "\(try #require(server.endpoints.tcp?.port))", "\(request) HTTP/1.1\r\n\(fields)\r\n",
                ]
            )
            #expect(answer.output.hasPrefix("HTTP/1.1 \(status) "), "\(answer.output)")
        }
    }

    @Test("TLS 1.2 and later, checked by curl and openssl")
    func tls() async throws {
        let certificates = try await Certificates.local
        let files = NetworkListener.Files(certificate: certificates.certificate, key: certificates.key)
        try await TestServer.with(listen: Self.anyPort, files: files) { server in
            let port = try #require(server.endpoints.tcp?.port)
            let url = "https://localhost:\(port)/metrics"
            server.box.metrics.publish(
                MetricsReading(
                    takenAt: Timestamp(nanosecondsSinceEpoch: 0),
                    countingSince: Timestamp(nanosecondsSinceEpoch: 0),
                    daemon: DaemonDescription(version: "1", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
                    capture: CaptureStatus(method: .poll, hooks: [], blindSpots: [])
                )
            )
            let trusting = ["--cacert", certificates.authority]
            for version in ["--tlsv1.2", "--tlsv1.3"] {
                #expect(try await self.status(url, trusting + [version]).hasPrefix("200"))
                let other = ["--request-target", "https://evil.example/metrics"]
                #expect(try await self.status(url, trusting + [version] + other).hasPrefix("421"))
            }
            #expect(try await self.status(url, trusting + ["--tls-max", "1.1"]).hasPrefix("000"))
            #expect(try await self.status(url).hasPrefix("000"))
            #expect(try await self.status("http://localhost:\(port)/metrics").hasPrefix("000"))
        }
    }

    @Test("the administrators' token opens everything, the other one what the listener shows, and the page needs none")
    func administrators() async throws {
        let (reader, administrator) = ("reader-reader-reader", "admin-admin-admin-admin")
        try await self.withFile(reader) { readerFile in
            try await self.withFile(administrator) { administratorFile in
                let cases: [(NetworkListener.Files, [(String?, String, String)])] = [
                    (
                        .init(token: readerFile, administratorToken: administratorFile),
                        [
                            (nil, "401", "401"), (reader, "200", "403"), (administrator, "200", "200"),
                            ("x", "401", "401"),
                        ]
                    ),
                    (
                        .init(administratorToken: administratorFile),
                        [(nil, "200", "403"), (administrator, "200", "200"), ("x", "401", "401")]
                    ),
                ]
                for (files, tokens) in cases {
                    try await TestServer.with(listen: Self.anyPort, files: files) { server in
                        let base = "http://127.0.0.1:\(try #require(server.endpoints.tcp?.port))"
                        for (token, processes, sockets) in tokens {
                            let options = token.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
                            for (path, status) in [
                                ("/v1/processes", processes), ("/v1/sockets", sockets), ("/v1/exchanges", sockets),
                                ("/v1/alerts", sockets), ("/v1/audit", sockets), ("/", "200"),
                                ("/page/style.css", "200"),
                            ] {
                                let given = try await self.status(base + path, options)
                                #expect(given.hasPrefix(status), "\(path) with \(token ?? "no token")")
                            }
                        }
                    }
                }
                #expect(throws: TrustedFileError.self) {
                    try NetworkListener(
                        address: Self.anyPort,
                        files: .init(token: readerFile, administratorToken: readerFile)
                    )
                }
            }
        }
    }

    @Test("a link on another site may lead to the page, and such a site gets nothing else")
    func links() async throws {
        try await TestServer.with(listen: Self.anyPort) { server in
            let base = "http://127.0.0.1:\(try #require(server.endpoints.tcp?.port))"
            let link = ["-H", "Sec-Fetch-Site: cross-site", "-H", "Sec-Fetch-Mode: navigate"]
            let image = ["-H", "Sec-Fetch-Site: cross-site", "-H", "Sec-Fetch-Mode: no-cors"]
            #expect(try await self.status(base + "/", link).hasPrefix("200"))
            #expect(try await self.status(base + "/", image).hasPrefix("403"))
            #expect(try await self.status(base + "/v1/doctor", link).hasPrefix("403"))
            #expect(try await self.status(base + "/", ["-H", "Host: evil.example"]).hasPrefix("421"))
        }
    }

    @Test("control.sock refuses another host's name too: a browser reaches it through ssh")
    func controlSocket() async throws {
        try await TestServer.with { server async throws -> Void in
            let socket = ["--unix-socket", server.path + "/control.sock"]
            #expect(try await self.status("http://localhost/v1/processes", socket).hasPrefix("200"))
            #expect(try await self.status("http://localhost:10419/", socket).hasPrefix("200"))
            #expect(try await self.status("http://evil.example/v1/processes", socket).hasPrefix("421"))
            #expect(try await self.status("http://plain/v1/processes", socket).hasPrefix("200"))
            let browser = socket + ["-H", "Accept-Language: en"]
            #expect(try await self.status("http://plain/v1/processes", browser).hasPrefix("421"))
            #expect(try await self.status("http://localhost:10419/v1/processes", browser).hasPrefix("200"))
            let page = socket + ["-H", "Origin: http://evil.example"]
            #expect(try await self.status("http://localhost/v1/processes", page).hasPrefix("403"))
        }
    }

    @Test("a browser's page of another origin gets nothing, and no answer may run as a page")
    func origins() async throws {
        try await TestServer.with(listen: Self.anyPort) { server in
            let port = try #require(server.endpoints.tcp?.port)
            let url = "http://127.0.0.1:\(port)/v1/processes"
            for origin in [
                "http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:\(port).evil.example",
                "http://localhost:\(port)", "127.0.0.1:\(port)",
            ] {
                #expect(try await self.status(url, ["-H", "Origin: \(origin)"]).hasPrefix("403"), "\(origin)")
            }
            #expect(try await self.status(url, ["-H", "Origin: http://127.0.0.1:\(port)"]).hasPrefix("200"))
            // An image of another site's page has no origin.
            for (site, status) in [
                ("cross-site", "403"), ("same-site", "403"), ("same-origin", "200"), ("none", "200"),
            ] {
                #expect(try await self.status(url, ["-H", "Sec-Fetch-Site: \(site)"]).hasPrefix(status), "\(site)")
            }
            let head = try await Tool.run("curl", ["-sI", url]).output.lowercased()
            for line in [
                "content-security-policy: default-src 'none'; frame-ancestors 'none'",
                "x-content-type-options: nosniff",
                "cross-origin-resource-policy: same-origin", "cache-control: no-store",
            ] {
                #expect(head.contains(line), "\(line)")
            }
            #expect(!head.contains("access-control-allow"))
        }
    }
}
