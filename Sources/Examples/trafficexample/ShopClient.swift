import NIOCore
import NIOHTTP1
import NIOPosix
import TrafficKit
import TrafficKitNIO

#if TLS
import AsyncHTTPClient
import TrafficKitAsyncHTTPClient
#endif

/// Asks the shop.
protocol ShopClient: Sendable {
    func get(_ path: String) async throws
    func post(_ json: String, to path: String) async throws
    func shutdown() async throws
}

#if TLS
struct AsyncHTTPShopClient: ShopClient {
    let port: Int
    let timeout: TimeAmount
    let isSilent: Bool
    private let client: HTTPClient

    init(port: Int, connections: Int, timeout: TimeAmount, isSilent: Bool) {
        (self.port, self.timeout, self.isSilent) = (port, timeout, isSilent)
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        configuration.timeout.connect = timeout
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
            ? try await self.client.execute(request, timeout: self.timeout)
            : try await self.client.execute(request, timeout: self.timeout, reportingTo: .shared)
        _ = try await response.body.collect(upTo: 1 << 24)
    }
}
#endif

/// SwiftNIO alone, without what AsyncHTTPClient brings. Each request has a connection of its own.
struct NIOShopClient: ShopClient {
    private typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    let port: Int
    let timeout: TimeAmount
    let isSilent: Bool

    func get(_ path: String) async throws {
        // /cart redirects.
        guard let location = try await self.execute(.GET, "/\(path)") else { return }
        _ = try await self.execute(.GET, location)
    }

    func post(_ json: String, to path: String) async throws {
        _ = try await self.execute(.POST, "/\(path)", ["Content-Type": "application/json"], ByteBuffer(string: json))
    }

    func shutdown() async throws {}

    /// - Returns: Where the answer redirects to.
    private func execute(
        _ method: HTTPMethod,
        _ target: String,
        _ fields: HTTPHeaders = [:],
        _ body: ByteBuffer = ByteBuffer()
    ) async throws -> String? {
        var fields = fields
        fields.add(name: "Host", value: "127.0.0.1:\(self.port)")
        if body.readableBytes > 0 { fields.add(name: "Content-Length", value: "\(body.readableBytes)") }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: target, headers: fields)
        let connection = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(self.timeout)
            .connect(host: "127.0.0.1", port: self.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    // The only line that a client needs.
                    if !self.isSilent { try pipeline.addTrafficHandlers(role: .client) }
                    try pipeline.addHTTPClientHandlers()
                    return try Connection(wrappingChannelSynchronously: channel)
                }
            }
        let channel = connection.channel
        // This closes the connection, and then reading the answer throws.
        let late = channel.eventLoop.scheduleTask(in: self.timeout) { channel.close(promise: nil) }
        defer { late.cancel() }
        return try await connection.executeThenClose { answer, request in
            try await request.write(contentsOf: [.head(head), .body(.byteBuffer(body)), .end(nil)])
            var location: String?
            for try await part in answer {
                switch part {
                case .head(let head) where (300..<400).contains(head.status.code):
                    location = head.headers.first(name: "Location")
                case .head, .body: break
                case .end: return location
                }
            }
            throw ChannelError.inputClosed
        }
    }
}
