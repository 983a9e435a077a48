import ArgumentParser
import AsyncHTTPClient
import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
import Logging
import NIOCore

/// Less than any library can take of a program if it reports each exchange with its exact bytes and its route: what
/// `scripts/bench` puts beside TrafficKit.
///
/// It does what no such library can do without, and nothing else: a handler in the pipeline, a clock, a look at each
/// line of the heads, the question what the kernel has taken, a slot for the router's path, and a record of fixed size
/// in a datagram. It finds no name, no length and no end of a message, and its records have no meaning. With HTTP/2 the
/// gap is wide: it looks at each frame's first bytes and at no field, though a library must decode the header blocks,
/// and it has one slot for the routes of all streams.
///
/// With `--llhttp` it finds the ends of messages of HTTP/1.1: in place of its look at the lines, llhttp reads all bytes,
/// as for NIO.
@main
struct ReportFloor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reportfloor",
        abstract: "Less than any reporting takes of a server and of a client.",
        subcommands: [Serve.self, Buy.self]
    )
}

struct FloorOptions: ParsableArguments {
    @Option(help: "TCP port on the loopback interface.")
    var port: Int

    @Option(help: "Where the datagrams go.")
    var reportSocket: String?

    @Flag(help: "Report nothing.")
    var silent = false

    @Flag(help: "Find the ends of messages with the parser of NIO (HTTP/1.1 only).")
    var llhttp = false

    /// `nil`: nothing is reported.
    func socket() throws -> FloorSocket? {
        guard !self.silent else { return nil }
        guard let reportSocket else { throw ValidationError("--report-socket or --silent") }
        return FloorSocket(path: reportSocket)
    }
}

struct Serve: AsyncParsableCommand {
    @OptionGroup var options: FloorOptions

    @Flag(help: "Speak HTTP/2.")
    var http2 = false

    func validate() throws {
        if self.http2, self.options.llhttp { throw ValidationError("--llhttp reads HTTP/1.1 only.") }
    }

    func run() async throws {
        let socket = try self.options.socket()
        let router = Router()
        // As trafficexample answers.
        router.get("orders/{id}") { _, context in
            let id = try context.parameters.require("id", as: Int.self)
            return Self.json("{\"id\":\(id),\"note\":\"\(String(repeating: "x", count: 900))\"}")
        }
        router.get("search") { _, _ in
            Self.json("[" + String(repeating: "{\"name\":\"thing\"},", count: 1_700) + "{}]")
        }
        if let socket {
            try await self.serve(FloorRouter(base: router), socket)
        } else {
            try await self.serve(router, nil)
        }
    }

    private static func json(_ text: String) -> Response {
        Response(
            status: .ok,
            headers: [.contentType: "application/json"],
            body: .init(byteBuffer: ByteBuffer(string: text))
        )
    }

    private func serve<Builder: HTTPResponderBuilder>(_ router: Builder, _ socket: FloorSocket?) async throws
    where Builder.Responder.Context == BasicRequestContext {
        let (isHTTP2, parses) = (self.http2, self.options.llhttp)
        let server = HTTPServerBuilder { responder in
            func channel(_ base: some ServerChildChannel) -> any ServerChildChannel {
                guard let socket else { return base }
                return FloorChannel(base: base, socket: socket, isHTTP2: isHTTP2, parses: parses)
            }
            return isHTTP2 ? channel(HTTP2Channel(responder: responder)) : channel(HTTP1Channel(responder: responder))
        }
        var logger = Logger(label: "reportfloor")
        logger.logLevel = .warning
        let app = Application(
            router: router,
            server: server,
            configuration: .init(address: .hostname("127.0.0.1", port: self.options.port)),
            logger: logger
        )
        try await app.runService()
    }
}

struct Buy: AsyncParsableCommand {
    @OptionGroup var options: FloorOptions

    @Option(help: "Get so many orders, one after the other.")
    var orders: Int

    func run() async throws {
        let socket = try self.options.socket()
        let parses = self.options.llhttp
        var configuration = HTTPClient.Configuration()
        if let socket {
            configuration.http1_1ConnectionDebugInitializer = { channel in
                channel.eventLoop.submit {
                    let options = channel.syncOptions
                    let handler = FloorHandler(role: .client, parses: parses, socket: socket, options: options)
                    try channel.pipeline.syncOperations.addHandler(handler, position: .first)
                }
            }
        }
        let client = HTTPClient(configuration: configuration)
        let url = "http://127.0.0.1:\(self.options.port)/orders/1"
        for _ in 0..<self.orders {
            let response = try await client.execute(HTTPClientRequest(url: url), timeout: .seconds(10))
            _ = try await response.body.collect(upTo: 1 << 24)
        }
        try await client.shutdown()
    }
}
