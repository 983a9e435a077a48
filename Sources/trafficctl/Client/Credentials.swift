import FoundationEssentials
import HTTPCalls

/// What a client shows a daemon over TCP, and what it believes.
struct Credentials: Sendable {
    /// For the field `Authorization`.
    var token: String?
    /// Certificates in PEM of those who may vouch for the daemon. `nil`: those of this system.
    var authoritiesFile: String?

    init() {}

    /// - Throws: `Failure.badFile` if the file of the token has none.
    init(tokenFile: String?, authoritiesFile: String?) throws(Failure) {
        self.authoritiesFile = authoritiesFile
        guard let tokenFile else { return }
        guard let text = try? String(contentsOf: URL(filePath: tokenFile), encoding: .utf8) else {
            throw .badFile(path: tokenFile, reason: "can't be read")
        }
        let line = text.prefix { !$0.isNewline }
        guard !line.isEmpty, line.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw .badFile(path: tokenFile, reason: "has no token in its first line")
        }
        self.token = String(line)
    }

    /// - Throws: `Failure.badFile` if the authorities can't be read.
    func trust() throws -> TLSTrust {
        guard let authoritiesFile else { return try TLSTrust(authorities: nil) }
        guard let pem = try? Data(contentsOf: URL(filePath: authoritiesFile)),
            let trust = try? TLSTrust(authorities: Array(pem))
        else {
            throw Failure.badFile(path: authoritiesFile, reason: "has no certificates in PEM that can be read")
        }
        return trust
    }
}
