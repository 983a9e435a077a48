import AsyncHTTPClient
import FoundationEssentials
import Glibc
import NIOCore
import NIOHTTP1
import TrafficModel

/// The daemon's control API, over its socket.
struct ControlClient: Sendable {
    let socketPath: String

    /// One answer, complete.
    ///
    /// - Throws: ``Failure``.
    func get(_ path: String, _ query: [(String, String?)] = []) async throws(Failure) -> ByteBuffer {
        try await self.withResponse(path, query) { body in
            var whole = ByteBuffer()
            for try await var part in body { whole.writeBuffer(&part) }
            return whole
        }
    }

    /// The parts of one answer as they come.
    ///
    /// - Throws: ``Failure``, also `Failure.disconnected` where the connection ends before the answer does. What `consume` throws
    ///   of its own passes through.
    func stream(
        _ path: String,
        _ query: [(String, String?)],
        consume: (ByteBuffer) async throws -> Void
    ) async throws {
        var thrown: (any Error)?
        try await self.withResponse(path, query) { body in
            for try await part in body {
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

    /// Values of the query that are `nil` are left out.
    private func withResponse<Result>(
        _ path: String,
        _ query: [(String, String?)],
        _ body: (HTTPClientResponse.Body) async throws -> Result
    ) async throws(Failure) -> Result {
        try self.checkReachable()
        var configuration = HTTPClient.Configuration()
        configuration.timeout.connect = .seconds(5)
        // The next try is the person's, or the screen's, which says meanwhile that it waits.
        configuration.connectionPool.retryConnectionEstablishment = false
        // Room for 10,000 sockets in one document, but not for anything.
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let outcome: Swift.Result<Result, Failure>
        do {
            let response = try await client.execute(self.request(path, query), deadline: .distantFuture)
            if response.status == .ok {
                outcome = .success(try await body(response.body))
            } else {
                outcome = .failure(await Self.refusal(response))
            }
        } catch {
            outcome = .failure(Self.failure(error, socketPath: self.socketPath))
        }
        try? await client.shutdown()
        return try outcome.get()
    }

    private func request(_ path: String, _ query: [(String, String?)]) -> HTTPClientRequest {
        var target = path
        for (name, value) in query {
            guard let value else { continue }
            target += target.contains("?") ? "&" : "?"
            target += name + "=" + Self.percentEncoded(value)
        }
        var request = HTTPClientRequest(url: "http+unix://\(Self.percentEncoded(self.socketPath))\(target)")
        request.headers.add(name: "user-agent", value: "trafficctl/\(TrafficVersion.current)")
        return request
    }

    /// Everything but the unreserved characters of RFC 3986.
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

    /// Tells apart what the HTTP client reports alike: no daemon, and no permission.
    ///
    /// - Throws: `Failure.notRunning` or `Failure.noPermission`.
    private func checkReachable() throws(Failure) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let path = Array(self.socketPath.utf8)
        guard path.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw .disconnected(reason: "the path of the socket is too long: \(self.socketPath)")
        }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw .disconnected(reason: unsafe String(cString: strerror(errno))) }
        defer { close(descriptor) }
        let status = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard status != 0 else { return }
        switch errno {
        case EACCES, EPERM: throw .noPermission(socketPath: self.socketPath)
        case ENOENT, ECONNREFUSED, ENOTDIR: throw .notRunning(socketPath: self.socketPath)
        default: throw .disconnected(reason: unsafe String(cString: strerror(errno)))
        }
    }

    private static func failure(_ error: any Error, socketPath: String) -> Failure {
        switch error {
        case let failure as Failure: failure
        case let error as IOError where error.errnoCode == ECONNREFUSED || error.errnoCode == ENOENT:
            .notRunning(socketPath: socketPath)
        case let error as HTTPClientError where error == .remoteConnectionClosed:
            .disconnected(reason: "trafficd closed it")
        case let error as HTTPClientError where error == .connectTimeout:
            .disconnected(reason: "trafficd does not answer")
        case is CancellationError: .disconnected(reason: "cancelled")
        default: .disconnected(reason: "\(error)")
        }
    }

    /// The daemon's words, from `application/problem+json` (RFC 9457).
    private static func refusal(_ response: HTTPClientResponse) async -> Failure {
        struct Problem: Decodable {
            var title: String?
            var detail: String?
        }
        let status = Int(response.status.code)
        guard let body = try? await response.body.collect(upTo: 64 * 1024),
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(body.readableBytesView))
        else {
            return .refused(status: status, detail: "")
        }
        return .refused(status: status, detail: problem.detail ?? problem.title ?? "")
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
        // Another version may well be the reason that it does not decode.
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
