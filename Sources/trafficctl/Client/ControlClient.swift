import FoundationEssentials
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import TrafficModel

/// Calls the daemon's control API.
struct ControlClient: Sendable {
    let address: DaemonAddress
    /// How to show who asks, and whom to believe; both over TCP only.
    var credentials = Credentials()

    /// Reads one whole answer.
    ///
    /// - Throws: ``Failure``.
    func get(_ path: String, _ query: [(String, String?)] = []) async throws(Failure) -> ByteBuffer {
        try await self.withResponse(path, query) { try await $0.whole() }
    }

    /// Passes the parts of one answer to `consume` as they come.
    ///
    /// - Throws: ``Failure``, also `Failure.disconnected` where the connection ends before the answer does. Errors that
    ///   `consume` throws pass through.
    func stream(
        _ path: String,
        _ query: [(String, String?)],
        consume: (ByteBuffer) async throws -> Void
    ) async throws {
        var thrown: (any Error)?
        try await self.withResponse(path, query) { body in
            var body = body
            while let part = try await body.next() {
                do {
                    try await consume(part)
                } catch {
                    thrown = error
                    return
                }
            }
        }
        if let thrown { throw thrown }
    }

    /// Leaves out values of the query that are `nil`.
    private func withResponse<Result: Sendable>(
        _ path: String,
        _ query: [(String, String?)],
        _ body: (Body) async throws -> Result
    ) async throws(Failure) -> Result {
        do {
            let connection = try await self.connect()
            return try await connection.executeThenClose { inbound, outbound in
                // Both at once: after the head alone, the daemon may answer and close before the end is written.
                try await outbound.write(contentsOf: [.head(self.request(path, query)), .end(nil)])
                var answer = Body(parts: inbound.makeAsyncIterator())
                let status = try await answer.status()
                guard status == .ok else { throw await Self.refusal(Int(status.code), answer) }
                return try await body(answer)
            }
        } catch {
            throw self.failure(error)
        }
    }

    private typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    private func connect() async throws -> Connection {
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connectTimeout(.seconds(5))
        let tls = try self.tls()
        let prepare = { @Sendable (channel: any Channel) in
            channel.eventLoop.makeCompletedFuture {
                if let tls { try channel.pipeline.syncOperations.addHandler(tls.handler()) }
                try channel.pipeline.syncOperations.addHTTPClientHandlers()
                return try Connection(wrappingChannelSynchronously: channel)
            }
        }
        return switch self.address {
        case .socket(let path): try await bootstrap.connect(unixDomainSocketPath: path, channelInitializer: prepare)
        case .network(let url):
            // A host that is gone says nothing, so the kernel asks for it: it is gone after 15 + 3 * 5 seconds.
            try await bootstrap.channelOption(.socketOption(.so_keepalive), value: 1)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPIDLE)), value: 15)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: 5)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: 3)
                .connect(host: url.host, port: url.port, channelInitializer: prepare)
        }
    }

    /// - Returns: `nil` without TLS.
    private func tls() throws -> TLSClient? {
        guard case .network(let url) = self.address, url.isEncrypted else { return nil }
        return try TLSClient(host: url.host, authorities: self.credentials.authoritiesFile)
    }

    private func request(_ path: String, _ query: [(String, String?)]) -> HTTPRequestHead {
        var (host, target) = ("trafficd", path)
        if case .network(let url) = self.address { (host, target) = (url.authority, url.path + path) }
        for (name, value) in query {
            guard let value else { continue }
            target += target.contains("?") ? "&" : "?"
            target += name + "=" + Self.percentEncoded(value)
        }
        var headers: HTTPHeaders = [
            "host": host, "user-agent": "trafficctl/\(TrafficVersion.current)", "connection": "close",
        ]
        if let token = self.credentials.token { headers.add(name: "authorization", value: "Bearer \(token)") }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: target, headers: headers)
    }

    /// Encodes everything but the unreserved characters of RFC 3986.
    private static func percentEncoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                result += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }

    /// Tells apart a missing daemon, a missing permission, and a broken connection.
    private func failure(_ error: any Error) -> Failure {
        switch error {
        case let failure as Failure: failure
        case let error as IOError:
            switch (error.errnoCode, self.address) {
            case (EACCES, .socket(let path)), (EPERM, .socket(let path)): .noPermission(socketPath: path)
            case (ENOENT, _), (ECONNREFUSED, _), (ENOTDIR, _): .notRunning(self.address)
            case (ECONNRESET, _), (EPIPE, _): .disconnected(reason: "trafficd closed it")
            default: .disconnected(reason: self.named(unsafe String(cString: strerror(error.errnoCode))))
            }
        case let error as NIOConnectionError:
            // Of several addresses the last: the first is often one of IPv6 without a route.
            error.connectionErrors.last.map { self.failure($0.error) }
                ?? .disconnected(reason: "no address is known for \(error.host)")
        case SocketAddressError.unixDomainSocketPathTooLong:
            .disconnected(reason: "the path of the socket is too long: \(self.address)")
        case let error as NIOSSLError: .disconnected(reason: self.named(Self.advice("\(error)")))
        case let error as NIOSSLExtraError: .disconnected(reason: self.named(Self.advice(error.description)))
        case HTTPParserError.invalidEOFState: .disconnected(reason: "trafficd closed it")
        case ChannelError.connectTimeout: .disconnected(reason: self.named("trafficd does not answer"))
        case is CancellationError: .disconnected(reason: "cancelled")
        default: .disconnected(reason: "\(error)")
        }
    }

    /// What a failure of TLS means for the user.
    private static func advice(_ error: String) -> String {
        if error.contains("CERTIFICATE_VERIFY_FAILED") || error.contains("failedToValidateHostname") {
            return "its certificate is not trusted, or is for another name: --api-ca-file FILE names who vouches for it"
        }
        return "TLS: \(error)"
    }

    /// Over TCP with the address, because a forgotten variable may have chosen it.
    private func named(_ reason: String) -> String {
        self.address.isLocal ? reason : "\(reason) (\(self.address))"
    }

    /// The daemon's own words, from `application/problem+json` (RFC 9457).
    private static func refusal(_ status: Int, _ answer: Body) async -> Failure {
        struct Problem: Decodable {
            var title: String?
            var detail: String?
        }
        guard let body = try? await answer.whole(atMost: 64 * 1024),
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(body.readableBytesView))
        else {
            return .refused(status: status, detail: "")
        }
        return .refused(status: status, detail: problem.detail ?? problem.title ?? "")
    }
}

extension ControlClient {
    /// The parts of an answer, as they come.
    private struct Body {
        var parts: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator

        /// The answer's head, which comes first.
        mutating func status() async throws -> HTTPResponseStatus {
            while let part = try await self.parts.next() {
                // 1xx answers come before the final answer.
                if case .head(let head) = part, head.status.code >= 200 { return head.status }
            }
            throw try Self.ended()
        }

        /// The next bytes; `nil` at the answer's end.
        mutating func next() async throws -> ByteBuffer? {
            while let part = try await self.parts.next() {
                switch part {
                case .head: continue
                case .body(let bytes): return bytes
                case .end: return nil
                }
            }
            throw try Self.ended()
        }

        func whole(atMost limit: Int = .max) async throws -> ByteBuffer {
            var (rest, whole) = (self, ByteBuffer())
            while whole.readableBytes < limit, var part = try await rest.next() { whole.writeBuffer(&part) }
            return whole
        }

        /// The parts also stop without an end where this task is cancelled.
        private static func ended() throws -> Failure {
            try Task.checkCancellation()
            return .disconnected(reason: "trafficd closed it")
        }
    }
}

extension Snapshot {
    /// - Throws: `Failure.unknownSchema` or `Failure.unreadableAnswer`.
    init(json: ByteBuffer) throws(Failure) {
        self = try json.decoded(as: Snapshot.self)
    }
}

extension ByteBuffer {
    /// - Throws: `Failure.unknownSchema` or `Failure.unreadableAnswer`.
    func decoded<Document: Decodable>(as type: Document.Type) throws(Failure) -> Document {
        let data = Data(self.readableBytesView)
        let document = Result { try JSONDecoder().decode(type, from: data) }
        // The version comes first, because another version may be the reason that the document does not decode.
        if let version = try? JSONDecoder().decode(Version.self, from: data).schema_version,
            version != Snapshot.currentSchemaVersion
        {
            throw .unknownSchema(version: version)
        }
        do {
            return try document.get()
        } catch {
            throw .unreadableAnswer(reason: "\(error)")
        }
    }
}

private struct Version: Decodable {
    var schema_version: Int
}
