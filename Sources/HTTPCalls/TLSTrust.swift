import TrafficModel

#if TLS
import NIOCore
import NIOSSL
#endif

/// Why there is no TLS.
package enum TLSFault: Error, CustomStringConvertible {
    /// In the certificates of those who may vouch for a server.
    case noCertificate
    case notPossible(String)
    case leftOut

    package var description: String {
        switch self {
        case .noCertificate: "it has no certificate in PEM"
        case .notPossible(let reason): "TLS: \(reason)"
        case .leftOut: BuildTraits.noTLS
        }
    }
}

/// Whom a client believes over TLS.
package struct TLSTrust: Sendable {
    #if TLS
    private let context: NIOSSLContext

    /// - Parameter authorities: Certificates in PEM of those who may vouch for the server. `nil`: those of this system.
    package init(authorities: [UInt8]?) throws(TLSFault) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        // A server that does not say goodbye must not hold up the end of a program.
        configuration.shutdownTimeout = .milliseconds(500)
        if let authorities {
            guard let certificates = try? NIOSSLCertificate.fromPEMBytes(authorities), !certificates.isEmpty else {
                throw .noCertificate
            }
            configuration.trustRoots = .certificates(certificates)
        }
        do { self.context = try NIOSSLContext(configuration: configuration) } catch { throw .notPossible("\(error)") }
    }

    func addHandler(to channel: any Channel, host: String) throws {
        let handler: NIOSSLClientHandler
        do {
            handler = try NIOSSLClientHandler(context: self.context, serverHostname: host)
        } catch let error as NIOSSLExtraError where error == .cannotUseIPAddressInSNI {
            // Then the certificate must have the address (RFC 6066 section 3).
            handler = try NIOSSLClientHandler(context: self.context, serverHostname: nil)
        }
        try channel.pipeline.syncOperations.addHandler(handler)
    }
    #else
    package init(authorities: [UInt8]?) throws(TLSFault) { throw .leftOut }
    #endif
}

extension HTTPCallError {
    /// - Returns: `nil` if the error has nothing to do with TLS.
    init?(ofTLS error: any Error) {
        #if TLS
        guard error is NIOSSLError || error is NIOSSLExtraError else { return nil }
        let text = "\(error)"
        if text.contains("CERTIFICATE_VERIFY_FAILED") {
            self = .untrusted
        } else if text.contains("failedToValidateHostname") || text.contains("unableToValidateCertificate") {
            self = .foreignCertificate
        } else {
            self = .tls(text)
        }
        #else
        return nil
        #endif
    }
}
