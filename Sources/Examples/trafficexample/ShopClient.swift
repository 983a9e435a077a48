#if TLS
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TrafficKit
import TrafficKitAsyncHTTPClient

/// Asks the shop with AsyncHTTPClient.
struct ShopClient {
    let port: Int
    let isSilent: Bool
    private let client: HTTPClient

    init(port: Int, connections: Int, isSilent: Bool) {
        (self.port, self.isSilent) = (port, isSilent)
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        // The only line that a client needs.
        if !isSilent { configuration.reportTraffic() }
        self.client = HTTPClient(configuration: configuration)
    }

    func get(_ path: String) async throws { try await self.execute(self.request(path)) }

    func post(_ json: String, to path: String) async throws {
        var request = self.request(path)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(string: json))
        try await self.execute(request)
    }

    func shutdown() async throws { try await self.client.shutdown() }

    private func request(_ path: String) -> HTTPClientRequest {
        HTTPClientRequest(url: "http://127.0.0.1:\(self.port)/\(path)")
    }

    private func execute(_ request: HTTPClientRequest) async throws {
        let response =
            self.isSilent
            ? try await self.client.execute(request, timeout: .seconds(10))
            : try await self.client.execute(request, timeout: .seconds(10), reportingTo: .shared)
        _ = try await response.body.collect(upTo: 1 << 24)
    }
}
#else
import NIOCore
import NIOHTTP1
import NIOPosix
import TrafficKit
import TrafficKitNIO

/// Asks the shop with SwiftNIO alone, because AsyncHTTPClient comes with BoringSSL. Each request has a connection of its own.
struct ShopClient {
    private typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    let port: Int
    let isSilent: Bool

    /// - Parameter connections: Not limited here: each visitor waits for the answer before the next request.
    init(port: Int, connections: Int, isSilent: Bool) {
        (self.port, self.isSilent) = (port, isSilent)
    }

    func get(_ path: String) async throws { try await self.execute(.GET, path) }

    func post(_ json: String, to path: String) async throws {
        try await self.execute(.POST, path, ["Content-Type": "application/json"], ByteBuffer(string: json))
    }

    func shutdown() async throws {}

    private func execute(
        _ method: HTTPMethod,
        _ path: String,
        _ fields: HTTPHeaders = [:],
        _ body: ByteBuffer = ByteBuffer()
    ) async throws {
        var fields = fields
        fields.add(name: "Host", value: "127.0.0.1:\(self.port)")
        if body.readableBytes > 0 { fields.add(name: "Content-Length", value: "\(body.readableBytes)") }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: "/\(path)", headers: fields)
        let connection = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(.seconds(10))
            .connect(host: "127.0.0.1", port: self.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    // The only line that a client needs.
                    if !self.isSilent { try pipeline.addTrafficHandlers(role: .client) }
                    try pipeline.addHTTPClientHandlers()
                    return try Connection(wrappingChannelSynchronously: channel)
                }
            }
        try await connection.executeThenClose { answer, request in
            try await request.write(contentsOf: [.head(head), .body(.byteBuffer(body)), .end(nil)])
            for try await part in answer { if case .end = part { return } }
        }
    }
}
#endif
