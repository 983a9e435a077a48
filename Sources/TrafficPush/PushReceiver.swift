import HTTPCalls
import NIOHTTP1
public import TrafficDocuments
import TrafficModel
public import TrustedFiles

/// A destination with what its files say.
public struct PushReceiver: Sendable {
    let destination: PushDestination
    let target: HTTPTarget
    let headers: HTTPHeaders
    /// `nil` without TLS.
    let trust: TLSTrust?

    /// - Throws: ``TrustedFileError`` if a file that the destination names can't be used.
    public init(_ destination: PushDestination) throws(TrustedFileError) {
        guard let target = HTTPTarget(destination.url) else {
            throw TrustedFileError(path: destination.name, reason: "it is no address of http or https")
        }
        (self.destination, self.target) = (destination, target)
        self.headers = try Self.headers(destination)
        self.trust = target.isEncrypted ? try Self.trust(destination) : nil
    }

    private static func headers(_ destination: PushDestination) throws(TrustedFileError) -> HTTPHeaders {
        guard let path = destination.headersFile else { return HTTPHeaders() }
        let text = String(decoding: try TrustedFile.read(path, isSecret: true), as: UTF8.self)
        guard let headers = PushHeaders.parse(text) else {
            throw TrustedFileError(path: path, reason: "each line must be NAME: VALUE, in ASCII")
        }
        return headers
    }

    private static func trust(_ destination: PushDestination) throws(TrustedFileError) -> TLSTrust {
        let path = destination.certificateAuthorityFile
        let authorities: [UInt8]? = if let path { try TrustedFile.read(path, isSecret: false) } else { nil }
        do throws(TLSFault) {
            return try TLSTrust(authorities: authorities)
        } catch {
            throw TrustedFileError(path: path ?? destination.name, reason: "\(error)")
        }
    }
}
