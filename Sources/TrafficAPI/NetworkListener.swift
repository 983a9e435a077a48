import NIOCore
import NIOSSL
public import TrafficModel

/// The TCP listener: where it is, and what it asks of clients.
public struct NetworkListener: Sendable {
    /// Files that protect the listener. The daemon reads them when it starts.
    public struct Files: Sendable, Hashable {
        /// The token that clients must send.
        public var token: String?
        /// Certificates in PEM, the listener's own first, and its private key.
        public var certificate: String?
        public var key: String?

        public init(token: String? = nil, certificate: String? = nil, key: String? = nil) {
            (self.token, self.certificate, self.key) = (token, certificate, key)
        }
    }

    /// With port 0 the system chooses the port.
    public var address: TrafficModel.SocketAddress
    /// Names that clients may use for this host, besides its addresses and `localhost`.
    public var names: Set<String>
    let token: AccessToken?
    let tls: TLSConfiguration?

    /// - Throws: ``ControlServerError/badFile(_:reason:)``.
    public init(
        address: TrafficModel.SocketAddress,
        names: Set<String> = [],
        files: Files = Files()
    ) throws(ControlServerError) {
        self.address = address
        self.names = names
        self.token = if let path = files.token { try AccessToken(file: path) } else { nil }
        self.tls =
            if let certificate = files.certificate, let key = files.key { try Self.tls(certificate, key) } else { nil }
    }

    /// - Throws: ``ControlServerError/badFile(_:reason:)``, also if the two do not belong together.
    private static func tls(_ certificate: String, _ key: String) throws(ControlServerError) -> TLSConfiguration {
        let chainBytes = try ListenerFile.read(certificate, isSecret: false)
        let keyBytes = try ListenerFile.read(key, isSecret: true)
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(chainBytes), !chain.isEmpty else {
            throw .badFile(certificate, reason: "it has no certificate in PEM")
        }
        guard let privateKey = try? NIOSSLPrivateKey(bytes: keyBytes, format: .pem) else {
            throw .badFile(key, reason: "it has no private key in PEM, or one with a passphrase")
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
            throw .badFile(key, reason: "it is not the key of \(certificate)")
        }
        return configuration
    }
}
