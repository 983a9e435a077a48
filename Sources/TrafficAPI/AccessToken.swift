import Glibc
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
        // A pipe must not make the daemon wait.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw .badFile(path, reason: unsafe String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw .badFile(path, reason: "it is not a plain file")
        }
        guard status.st_mode & 0o007 == 0 else {
            throw .badFile(path, reason: "every user can read or change it: chmod o= \(path)")
        }
        var buffer = [UInt8](repeating: 0, count: Self.longest + 1)
        let count = unsafe read(descriptor, &buffer, buffer.count)
        guard count >= 0 else { throw .badFile(path, reason: unsafe String(cString: strerror(errno))) }
        let line = buffer[..<count].prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
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
