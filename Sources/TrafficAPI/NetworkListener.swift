import HummingbirdCore
public import TrafficModel
public import TrustedFiles

#if TLS
import HummingbirdTLS
import NIOCore
import NIOSSL
#endif

/// The TCP listener: where it is, and what it asks of clients.
public struct NetworkListener: Sendable {
    /// Files that protect the listener. The daemon reads them when it starts.
    public struct Files: Sendable, Hashable {
        /// The token that clients must send.
        public var token: String?
        /// The token of clients that may see as much as root.
        public var administratorToken: String?
        /// Certificates in PEM, the listener's own first, and its private key.
        public var certificate: String?
        public var key: String?

        public init(
            token: String? = nil,
            administratorToken: String? = nil,
            certificate: String? = nil,
            key: String? = nil
        ) {
            (self.token, self.administratorToken) = (token, administratorToken)
            (self.certificate, self.key) = (certificate, key)
        }
    }

    /// With port 0 the system chooses the port.
    public var address: TrafficModel.SocketAddress
    /// Names that clients may use for this host, besides its addresses and `localhost`.
    public var names: Set<String>
    let tokens: AccessTokens
    #if TLS
    private let tls: TLSConfiguration?
    #endif

    /// - Throws: ``TrustedFileError``.
    public init(
        address: TrafficModel.SocketAddress,
        names: Set<String> = [],
        files: Files = Files()
    ) throws(TrustedFileError) {
        self.address = address
        self.names = names
        let reader: AccessToken? = if let path = files.token { try AccessToken(file: path) } else { nil }
        let administrator: AccessToken? =
            if let path = files.administratorToken { try AccessToken(file: path) } else { nil }
        if let path = files.administratorToken, let reader, let administrator, reader == administrator {
            throw TrustedFileError(path: path, reason: "it has the same token as the other clients' file")
        }
        self.tokens = AccessTokens(reader: reader, administrator: administrator)
        #if TLS
        self.tls =
            if let certificate = files.certificate, let key = files.key { try Self.tls(certificate, key) } else { nil }
        #else
        if let certificate = files.certificate {
            throw TrustedFileError(path: certificate, reason: BuildTraits.noTLS)
        }
        #endif
    }

    /// The server that clients reach here: with TLS if there is a certificate.
    func server(_ http: HTTPServerBuilder) throws -> HTTPServerBuilder {
        #if TLS
        try self.tls.map { try .tls(http, tlsConfiguration: $0) } ?? http
        #else
        http
        #endif
    }

    #if TLS
    /// - Throws: ``TrustedFileError``, also if the two do not belong together.
    private static func tls(_ certificate: String, _ key: String) throws(TrustedFileError) -> TLSConfiguration {
        let chainBytes = try TrustedFile.read(certificate, isSecret: false)
        let keyBytes = try TrustedFile.read(key, isSecret: true)
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(chainBytes), !chain.isEmpty else {
            throw TrustedFileError(path: certificate, reason: "it has no certificate in PEM")
        }
        guard let privateKey = try? NIOSSLPrivateKey(bytes: keyBytes, format: .pem) else {
            throw TrustedFileError(path: key, reason: "it has no private key in PEM, or one with a passphrase")
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(privateKey)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        // A connection that gives way shall not stay because its client does not answer.
        configuration.shutdownTimeout = .milliseconds(500)
        do { _ = try NIOSSLContext(configuration: configuration) } catch {
            throw TrustedFileError(path: key, reason: "it is not the key of \(certificate)")
        }
        return configuration
    }
    #endif
}
