import ArgumentParser
import Hummingbird
import HummingbirdCore
import Logging
import TrafficKit
import TrafficKitHummingbird

#if TLS
import HummingbirdHTTP2
import HummingbirdTLS
import NIOSSL
#endif

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Serves the shop on the loopback interface.")

    @Option(help: "TCP port.")
    var port = 8080

    @Flag(help: "Speak HTTP/2, for clients that know of it: no TLS agrees on it.")
    var http2 = false

    @Option(help: ArgumentHelp("Use TLS, with the certificate in this file (PEM).", valueName: "path"))
    var certificate: String?

    @Option(help: ArgumentHelp("The key of the certificate (PEM).", valueName: "path"))
    var key: String?

    @OptionGroup var reports: ReportOptions

    func validate() throws {
        guard (self.certificate == nil) == (self.key == nil), self.certificate == nil || !self.http2 else {
            throw ValidationError("--certificate and --key go together, and without --http2.")
        }
        #if !TLS
        guard self.certificate == nil, !self.http2 else {
            throw ValidationError("TLS and HTTP/2 are not in this program: it was built without the trait TLS.")
        }
        #endif
    }

    func run() async throws {
        try self.reports.start()
        let router = Router()
        Shop.add(to: router)
        if self.reports.silent {
            try await self.serve(router)
        } else {
            // The reports get their routes from the router.
            try await self.serve(router.reportingRoutes())
        }
        TrafficMonitor.shared.stop()
    }

    private func serve<Builder: HTTPResponderBuilder>(_ router: Builder) async throws
    where Builder.Responder.Context == BasicRequestContext {
        var logger = Logger(label: "trafficexample")
        logger.logLevel = .warning
        let app = Application(
            router: router,
            server: try self.server,
            configuration: .init(address: .hostname("127.0.0.1", port: self.port)),
            logger: logger
        )
        try await app.runService()
    }

    /// This choice makes the server count what its connections move.
    private var server: HTTPServerBuilder {
        get throws {
            #if TLS
            let server: HTTPServerBuilder =
                switch (self.http2, self.reports.silent) {
                case (false, false): .http1(reportingTo: .shared)
                case (false, true): .http1()
                case (true, false): .plaintextHTTP2(reportingTo: .shared)
                case (true, true): .plaintextHTTP2()
                }
            guard let certificate, let key else { return server }
            return try .tls(
                server,
                tlsConfiguration: .makeServerConfiguration(
                    certificateChain: NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
                    privateKey: .privateKey(NIOSSLPrivateKey(file: key, format: .pem))
                )
            )
            #else
            self.reports.silent ? .http1() : .http1(reportingTo: .shared)
            #endif
        }
    }
}

/// Answers of known sizes.
private enum Shop {
    static func add(to router: Router<BasicRequestContext>) {
        router.get("orders/{id}") { _, context in
            let id = try context.parameters.require("id", as: Int.self)
            return Self.json("{\"id\":\(id),\"note\":\"\(String(repeating: "x", count: 900))\"}")
        }
        router.post("orders") { request, _ in
            let body = try await request.body.collect(upTo: 1 << 20)
            return Self.json("{\"received\":\(body.readableBytes)}", status: .created)
        }
        router.get("search") { _, _ in
            Self.json("[" + String(repeating: "{\"name\":\"thing\"},", count: 1_700) + "{}]")
        }
        router.get("images/{name}") { _, _ in
            Response(
                status: .ok,
                headers: [.contentType: "image/png"],
                body: .init(byteBuffer: ByteBuffer(repeating: 0x55, count: 180_000))
            )
        }
        router.get("cart") { _, _ in Response(status: .movedPermanently, headers: [.location: "/orders/1"]) }
        router.get("recommendations") { _, _ in Self.json("{\"error\":\"try later\"}", status: .serviceUnavailable) }
        router.get("checkout") { _, _ in
            try await Task.sleep(for: .milliseconds(80))
            return Self.json("{\"paid\":true}")
        }
    }

    private static func json(_ text: String, status: HTTPResponse.Status = .ok) -> Response {
        Response(
            status: status,
            headers: [.contentType: "application/json"],
            body: .init(byteBuffer: ByteBuffer(string: text))
        )
    }
}
