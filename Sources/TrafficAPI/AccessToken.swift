import TrustedFiles

/// A secret that clients of the TCP listener send: `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
struct AccessToken: Sendable, Equatable {
    /// Whoever tries all shorter ones may find it.
    static let shortest = 16
    private static let longest = 4_096

    private let bytes: [UInt8]

    /// Reads the first line of a file.
    ///
    /// - Throws: ``TrustedFileError``, also if other users can read the file.
    init(file path: String) throws(TrustedFileError) {
        let text = try TrustedFile.read(path, isSecret: true)
        let line = text.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard (Self.shortest...Self.longest).contains(line.count), line.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            throw TrustedFileError(
                path: path,
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

/// The tokens that clients of the TCP listener may send, and what they see then.
struct AccessTokens: Sendable {
    /// Of a ``Viewer/network``. `nil`: clients need none to be one.
    var reader: AccessToken?
    /// Of a ``Viewer/administrator``.
    var administrator: AccessToken?

    /// - Parameter authorization: The header `Authorization`; `nil` without one.
    /// - Returns: `nil` for a client that must be refused: it lacks the token, or sends a wrong one.
    func viewer(for authorization: String?) -> Viewer? {
        if let administrator, administrator.matches(authorization) { return .administrator }
        if let reader { return reader.matches(authorization) ? .network : nil }
        // Where one token is known, another is a mistake, and its sender must learn of it.
        return self.administrator == nil || authorization == nil ? .network : nil
    }
}
