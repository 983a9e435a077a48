import HTTPTypes
import Hummingbird

/// A secret that clients of the TCP listener send: `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
struct AccessToken: Sendable {
    /// Whoever tries all shorter ones may find it.
    static let shortest = 16
    private static let longest = 4_096

    private let bytes: [UInt8]

    /// Reads the first line of a file.
    ///
    /// - Throws: ``ControlServerError/badFile(_:reason:)``, also if other users can read the file.
    init(file path: String) throws(ControlServerError) {
        let text = try ListenerFile.read(path, isSecret: true)
        let line = text.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard (Self.shortest...Self.longest).contains(line.count), line.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            throw .badFile(
                path,
                reason: "its first line must be a token of \(Self.shortest) or more characters without blanks: "
                    + "openssl rand -hex 32 makes one"
            )
        }
        self.bytes = Array(line)
    }

    /// Takes as long for any wrong token of the same length, so that the time tells nothing.
    func matches(_ authorization: String?) -> Bool {
        guard let authorization, authorization.lowercased().hasPrefix("bearer ") else { return false }
        let given = Array(authorization.utf8.dropFirst("bearer ".utf8.count).drop { $0 == UInt8(ascii: " ") })
        guard given.count == self.bytes.count else { return false }
        return zip(given, self.bytes).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

/// Refuses requests without the token.
struct TokenMiddleware: RouterMiddleware {
    let token: AccessToken

    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        guard self.token.matches(request.headers[.authorization]) else { throw Problem.tokenMissing }
        return try await next(request, context)
    }
}
