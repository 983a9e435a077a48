import NIOCore
import NIOHTTP1
import NIOSSL
public import SecretFiles

/// A destination with what its files say.
public struct PushReceiver: Sendable {
    let destination: PushDestination
    let headers: HTTPHeaders
    let trust: TLSConfiguration

    /// - Throws: ``SecretFileError`` if a file that the destination names can't be used.
    public init(_ destination: PushDestination) throws(SecretFileError) {
        self.destination = destination
        self.headers = try Self.headers(destination)
        self.trust = try Self.trust(destination)
    }

    private static func headers(_ destination: PushDestination) throws(SecretFileError) -> HTTPHeaders {
        guard let path = destination.headersFile else { return HTTPHeaders() }
        let text = String(decoding: try SecretFile.read(path, isSecret: true), as: UTF8.self)
        guard let headers = PushHeaders.parse(text) else {
            throw SecretFileError(path: path, reason: "each line must be NAME: VALUE, in ASCII")
        }
        return headers
    }

    private static func trust(_ destination: PushDestination) throws(SecretFileError) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        // A receiver that does not say goodbye must not hold up the daemon's end.
        configuration.shutdownTimeout = .milliseconds(500)
        guard let path = destination.certificateAuthorityFile else { return configuration }
        let bytes = try SecretFile.read(path, isSecret: false)
        guard let authorities = try? NIOSSLCertificate.fromPEMBytes(bytes), !authorities.isEmpty else {
            throw SecretFileError(path: path, reason: "it has no certificate in PEM")
        }
        configuration.trustRoots = .certificates(authorities)
        return configuration
    }
}
