import FoundationEssentials
import NIOCore
import NIOSSL

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
}

/// The client's side of TLS, for one connection.
struct TLSClient: Sendable {
    private let context: NIOSSLContext
    private let host: String

    /// - Throws: `Failure.badFile` if the authorities can't be read.
    init(host: String, authorities: String?) throws {
        self.host = host
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        if let authorities {
            guard (try? NIOSSLCertificate.fromPEMFile(authorities))?.isEmpty == false else {
                throw Failure.badFile(path: authorities, reason: "has no certificates in PEM that can be read")
            }
            configuration.trustRoots = .file(authorities)
        }
        self.context = try NIOSSLContext(configuration: configuration)
    }

    func handler() throws -> NIOSSLClientHandler {
        do {
            return try NIOSSLClientHandler(context: self.context, serverHostname: self.host)
        } catch let error as NIOSSLExtraError where error == .cannotUseIPAddressInSNI {
            // Then the certificate must have the address (RFC 6066 section 3).
            return try NIOSSLClientHandler(context: self.context, serverHostname: nil)
        }
    }
}
