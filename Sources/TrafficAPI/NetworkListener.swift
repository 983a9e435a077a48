import Glibc
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
    public var address: SocketAddress
    /// Names that clients may use for this host, besides its addresses and `localhost`.
    public var names: Set<String>
    let token: AccessToken?
    let tls: TLSConfiguration?

    /// - Throws: ``ControlServerError/badFile(_:reason:)``.
    public init(address: SocketAddress, names: Set<String> = [], files: Files = Files()) throws(ControlServerError) {
        self.address = address
        self.names = names
        self.token = if let path = files.token { try AccessToken(file: path) } else { nil }
        self.tls =
            if let certificate = files.certificate, let key = files.key { try Self.tls(certificate, key) } else { nil }
    }

    /// - Throws: ``ControlServerError/badFile(_:reason:)``, also if the two do not belong together.
    private static func tls(_ certificate: String, _ key: String) throws(ControlServerError) -> TLSConfiguration {
        func read<Value>(_ path: String, _ body: () throws -> Value) throws(ControlServerError) -> Value {
            guard access(path, R_OK) == 0 else {
                throw .badFile(path, reason: unsafe String(cString: strerror(errno)))
            }
            do { return try body() } catch { throw .badFile(path, reason: "it is no PEM file of what it should be") }
        }
        let chain = try read(certificate) { try NIOSSLCertificate.fromPEMFile(certificate) }
        let privateKey = try read(key) { try NIOSSLPrivateKey(file: key, format: .pem) }
        guard !chain.isEmpty else { throw .badFile(certificate, reason: "it has no certificate") }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(privateKey)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do { _ = try NIOSSLContext(configuration: configuration) } catch {
            throw .badFile(key, reason: "it is not the key of \(certificate)")
        }
        return configuration
    }
}
