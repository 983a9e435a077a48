import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficAPI
import TrafficKitTestSupport
import TrafficModel

/// `trafficctl --url` and the real control server.
@Suite("trafficctl over TCP", .timeLimit(.minutes(60)))
struct ClientTests {
    private static let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent().appending(path: "trafficctl").path

    private func trafficctl(_ arguments: String..., environment: [String: String] = [:]) async throws -> Tool {
        try await Tool.run(Self.program, arguments, environment: environment, mayFail: true)
    }

    private func withServer(
        at address: String = "127.0.0.1",
        _ body: @Sendable @escaping (_ url: String, _ server: TestServer) async throws -> Void
    ) async throws {
        let anyPort = TrafficModel.SocketAddress(address: Fixture.address(address), port: 0)
        try await TestServer.with(listen: anyPort) { server in
            let port = try #require(server.endpoints.tcp?.port)
            try await body("http://\(address.contains(":") ? "[\(address)]" : address):\(port)", server)
        }
    }

    @Test(
        "commands show what a client over TCP may see, and say why they show no more",
        arguments: ["127.0.0.1", "::1"]
    )
    func commands(address: String) async throws {
        try await self.withServer(at: address) { url, _ in
            let visible = Fixture.reading().visible(to: .network).snapshot
            for command in [["export"], ["watch", "--count", "1"]] {
                let result = try await Tool.run(Self.program, command + ["--url", url])
                #expect(try JSONDecoder().decode(Snapshot.self, from: result.outputData) == visible)
            }
            let processes = try await self.trafficctl("processes", "--format", "tsv", "--url", url)
            #expect(processes.status == 0 && processes.output.split(separator: "\n").count == 1 + 2)
            #expect(processes.output.contains("/usr/sbin/sshd") && !processes.output.contains("hunter2"))
            let endpoints = try await self.trafficctl("endpoints", "--url", url)
            #expect(endpoints.status == 0 && endpoints.output.contains("api.example"))
            for command in ["sockets", "exchanges", "history", "alerts"] {
                let refused = try await self.trafficctl(command, "--url", url)
                #expect(refused.status == 77 && refused.output.isEmpty, "\(command)")
                #expect(refused.error.contains("control.sock"), "\(command)")
            }
        }
    }

    @Test("an option wins over a variable, and stands before the command or after it")
    func options() async throws {
        try await self.withServer { url, server in
            let wrong = ["TRAFFICD_URL": "http://127.0.0.1:1", "TRAFFICD_RUNTIME_DIRECTORY": "/nowhere"]
            #expect(try await self.trafficctl("processes", environment: ["TRAFFICD_URL": url]).status == 0)
            #expect(try await self.trafficctl("processes", "--url", url, environment: wrong).status == 0)
            #expect(try await self.trafficctl("--url", url, "processes", environment: wrong).status == 0)
            let local = ["sockets", "--runtime-directory", server.path]
            #expect(try await Tool.run(Self.program, local, environment: wrong).output.contains("192.0.2.1"))
            let both = try await self.trafficctl("processes", "--url", url, "--runtime-directory", server.path)
            #expect(both.status == 64 && both.error.contains("not both"))
        }
    }

    @Test("a URL may have a name, a slash at its end, and the path of a proxy")
    func places() async throws {
        try await self.withServer { url, _ in
            let port = try #require(url.split(separator: ":").last)
            for place in [url + "/", url + "//", "HTTP://LocalHost:\(port)"] {
                #expect(try await self.trafficctl("processes", "--url", place).status == 0, "\(place)")
            }
            let below = try await self.trafficctl("processes", "--url", url + "/traffic/")
            #expect(below.error == "trafficctl: There is nothing at /traffic/v1/processes.\n")
        }
    }

    @Test(
        "what is no URL of a daemon is wrong usage, and the message says what is wrong",
        arguments: [
            ("ftp://host", "must begin with http://"), ("https://host:0", "from 1 to 65535"),
            ("host", "such as http://"),
            ("http://", "such as http://"), ("127.0.0.1:10419", "such as http://"), ("http://me:word@host", "no users"),
            ("http://host/?a", "before ?"), ("http://host#a", "before ?"), ("http://host:0", "from 1 to 65535"),
            ("http://host:65536", "from 1 to 65535"), ("http://host:99999999999999999999", "from 1 to 65535"),
            ("http://[fe80::1%25eth0]:1", "with % is not possible"), ("http://ho st", "such as http://"),
        ]
    )
    func wrongURLs(url: String, reason: String) async throws {
        let option = try await self.trafficctl("processes", "--url", url)
        #expect(option.status == 64 && option.error.contains(reason))
        // A URL may have a password.
        #expect(!option.error.contains("word@"))
        let variable = try await self.trafficctl("processes", environment: ["TRAFFICD_URL": url])
        #expect(variable.status == 64 && variable.error.contains(reason) && variable.error.contains("TRAFFICD_URL"))
        #expect(!variable.error.contains("word@"))
        #expect(try await self.trafficctl("help", "top", environment: ["TRAFFICD_URL": url]).status == 0)
    }

    @Test("with a token and TLS, commands need both, and say what is missing", arguments: ["127.0.0.1", "localhost"])
    func protected(host: String) async throws {
        let certificates = try await Certificates.local
        let token = FileManager.default.temporaryDirectory.appending(path: "token-\(UUID().uuidString)").path
        let wrong = token + "-wrong"
        defer { for file in [token, wrong] { unlink(file) } }
        for (file, text) in [(token, "0123456789abcdef\n"), (wrong, "0123456789abcdeF")] {
            try Data(text.utf8).write(to: URL(filePath: file))
            #expect(chmod(file, 0o600) == 0)
        }
        let loopback = TrafficModel.SocketAddress(address: Fixture.address("127.0.0.1"), port: 0)
        let files = NetworkListener.Files(token: token, certificate: certificates.certificate, key: certificates.key)
        try await TestServer.with(listen: loopback, files: files) { server in
            let port = try #require(server.endpoints.tcp?.port)
            let url = "https://\(host):\(port)"
            let trusting = ["--api-ca-file", certificates.authority]
            let good = ["processes", "--format", "tsv", "--url", url] + trusting
            let seen = try await Tool.run(Self.program, good + ["--api-token-file", token])
            #expect(seen.output.split(separator: "\n").count == 1 + 2)
            let variables = [
                "TRAFFICD_URL": url, "TRAFFICD_API_TOKEN_FILE": token, "TRAFFICD_API_CA_FILE": certificates.authority,
            ]
            #expect(try await self.trafficctl("processes", environment: variables).status == 0)

            for refused in [good, good + ["--api-token-file", wrong]] {
                let result = try await Tool.run(Self.program, refused, mayFail: true)
                #expect(result.status == 77 && result.error.contains("--api-token-file FILE") && result.output.isEmpty)
            }
            let untrusted = try await self.trafficctl("processes", "--url", url, "--api-token-file", token)
            #expect(untrusted.status == 1 && untrusted.error.contains("--api-ca-file FILE"), "\(untrusted.error)")
            let plain = try await self.trafficctl("processes", "--url", "http://\(host):\(port)")
            #expect(plain.status == 1 && plain.output.isEmpty, "\(plain.error)")
            // The variables are for the daemon of TRAFFICD_URL, and not for another one.
            let elsewhere = ["TRAFFICD_API_TOKEN_FILE": token, "TRAFFICD_API_CA_FILE": certificates.authority]
            let other = try await Tool.run(Self.program, good, environment: elsewhere, mayFail: true)
            #expect(other.status == 77)
            // The control socket asks for neither.
            #expect(try await server.curl("/healthz").output.contains("ok"))
        }
    }

    @Test("a token or certificates that can't be read are named")
    func missingFiles() async throws {
        let url = ["processes", "--url", "https://127.0.0.1:1"]
        for option in ["--api-token-file", "--api-ca-file"] {
            let result = try await Tool.run(Self.program, url + [option, "/nowhere"], mayFail: true)
            #expect(result.status == 1 && result.error.contains("/nowhere"), "\(result.error)")
            let pointless = try await Tool.run(Self.program, ["processes", option, "/nowhere"], mayFail: true)
            #expect(pointless.status == 64 && pointless.error.contains("are for --url"))
        }
        let plain = ["processes", "--url", "http://127.0.0.1:1", "--api-ca-file", "/nowhere"]
        let result = try await Tool.run(Self.program, plain, mayFail: true)
        #expect(result.status == 64 && result.error.contains("is for https"))
    }

    @Test("the kernel asks for a daemon that says nothing")
    func keepalive() async throws {
        try await self.withServer { url, _ in
            let watch = try Program(URL(filePath: Self.program), ["watch", "--url", url])
            _ = try #require(try await watch.line())
            let port = try #require(url.split(separator: ":").last)
            let sockets = try await Tool.run("ss", ["-Htno", "state", "established", "dst 127.0.0.1:\(port)"])
            #expect(sockets.output.contains("timer:(keepalive,"), "\(sockets.output)")
        }
    }

    @Test("a server that ends every stream at once is no daemon: record does not wait for one")
    func endedStream() async throws {
        let script = """
            import http.server
            class Empty(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200)
                    self.send_header("content-length", "0")
                    self.end_headers()
            server = http.server.HTTPServer(("127.0.0.1", 0), Empty)
            print(server.server_port, flush=True)
            server.handle_request()
            """
        let python = try #require(SystemTool.path("python3"))
        let server = try Program(python, ["-c", script])
        let port = String(decoding: try #require(try await server.line()), as: UTF8.self)
        let file = FileManager.default.temporaryDirectory.appending(path: "record-\(UUID().uuidString)").path
        let result = try await self.trafficctl("record", file, "--url", "http://127.0.0.1:\(port)")
        #expect(result.status == 1 && !FileManager.default.fileExists(atPath: file))
        #expect(result.error == "trafficctl: the connection to trafficd broke: trafficd closed it\n")
    }

    @Test("where nobody listens, the message says how a daemon does")
    func nobody() async throws {
        // Nobody can listen on port 1 of these addresses but root, and no test does.
        for url in ["http://127.0.0.1:1", "http://[::1]:1/path"] {
            let result = try await self.trafficctl("processes", "--url", url)
            #expect(result.status == 69)
            #expect(
                result.error
                    == "trafficctl: nobody listens at \(url): trafficd needs the setting listen; docs/install.md says how\n"
            )
        }
        let start = ContinuousClock.now
        let unnamed = try await self.trafficctl("processes", "--url", "http://nowhere.invalid:1")
        // trafficctl has 5 s for the name and the connection, and says then that they have passed.
        let reason =
            ContinuousClock.now - start >= .seconds(5) && unnamed.error.contains("does not answer")
            ? "trafficd does not answer (http://nowhere.invalid:1)" : "no address is known for nowhere.invalid"
        #expect(unnamed.status == 1)
        #expect(unnamed.error == "trafficctl: the connection to trafficd broke: \(reason)\n")
    }
}
