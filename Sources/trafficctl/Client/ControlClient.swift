import FoundationEssentials
import Glibc
import HTTPCalls
import NIOCore
import NIOHTTP1
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
        _ body: (HTTPBody) async throws -> Result
    ) async throws(Failure) -> Result {
        do {
            return try await self.call(path, query).answer { head, answer in
                guard head.status == .ok else { throw await Self.refusal(Int(head.status.code), answer) }
                return try await body(answer)
            }
        } catch {
            throw self.failure(error)
        }
    }

    private func call(_ path: String, _ query: [(String, String?)]) throws -> HTTPCall {
        var (host, target) = ("trafficd", path)
        if case .network(let url) = self.address { (host, target) = (url.authority, url.path + path) }
        for (name, value) in query {
            guard let value else { continue }
            target += target.contains("?") ? "&" : "?"
            target += name + "=" + Self.percentEncoded(value)
        }
        var headers: HTTPHeaders = ["host": host, "user-agent": "trafficctl/\(TrafficVersion.current)"]
        if let token = self.credentials.token { headers.add(name: "authorization", value: "Bearer \(token)") }
        return HTTPCall(.GET, target, at: try self.place(), headers: headers)
    }

    private func place() throws -> HTTPServerPlace {
        switch self.address {
        case .socket(let path): .socket(path: path)
        case .network(let url):
            .network(host: url.host, port: url.port, tls: url.isEncrypted ? try self.credentials.trust() : nil)
        }
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
        guard let error = error as? HTTPCallError else {
            return error as? Failure ?? .disconnected(reason: "\(error)")
        }
        switch (error, self.address) {
        case (.system(number: EACCES), .socket(let path)), (.system(number: EPERM), .socket(let path)):
            return .noPermission(socketPath: path)
        case (.system(number: ENOENT), _), (.system(number: ECONNREFUSED), _), (.system(number: ENOTDIR), _):
            return .notRunning(self.address)
        case (.system(number: ECONNRESET), _), (.system(number: EPIPE), _), (.closed, _):
            return .disconnected(reason: "trafficd closed it")
        case (.longSocketPath, _): return .disconnected(reason: "\(error): \(self.address)")
        case (.noConnectionInTime, _): return .disconnected(reason: self.named("trafficd does not answer"))
        case (.untrusted, _), (.foreignCertificate, _): return .disconnected(reason: self.named(Self.untrusted))
        case (.system, _), (.tls, _): return .disconnected(reason: self.named("\(error)"))
        default: return .disconnected(reason: "\(error)")
        }
    }

    private static let untrusted =
        "its certificate is not trusted, or is for another name: --api-ca-file FILE names who vouches for it"

    /// Over TCP with the address, because a forgotten variable may have chosen it.
    private func named(_ reason: String) -> String {
        self.address.isLocal ? reason : "\(reason) (\(self.address))"
    }

    /// The daemon's own words, from `application/problem+json` (RFC 9457).
    private static func refusal(_ status: Int, _ answer: HTTPBody) async -> Failure {
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
