import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix

/// Why there is no whole answer.
package enum HTTPCallError: Error, Hashable, CustomStringConvertible {
    /// - Parameter number: Of errno.h.
    case system(number: Int32)
    case unknownHost(String)
    case longSocketPath
    case noConnectionInTime
    case noAnswerInTime(Duration)
    /// The connection ended before the answer did.
    case closed
    /// The authority of the certificate is not trusted.
    case untrusted
    /// The certificate is for another host.
    case foreignCertificate
    case tls(String)
    case cancelled
    case other(String)

    init(_ error: any Error) {
        self =
            switch error {
            case let error as HTTPCallError: error
            case let error as IOError: .system(number: error.errnoCode)
            case let error as NIOConnectionError:
                // Of several addresses the last: the first is often one of IPv6 without a route.
                error.connectionErrors.last.map { Self($0.error) } ?? .unknownHost(error.host)
            case SocketAddressError.unixDomainSocketPathTooLong: .longSocketPath
            case HTTPParserError.invalidEOFState: .closed
            case ChannelError.connectTimeout: .noConnectionInTime
            case is CancellationError: .cancelled
            default: Self(ofTLS: error) ?? .other("\(error)")
            }
    }

    package var description: String {
        switch self {
        case .system(let number): unsafe String(cString: strerror(number))
        case .unknownHost(let host): "no address is known for \(host)"
        case .longSocketPath: "the path of the socket is too long"
        case .noConnectionInTime: "it takes no connection"
        case .noAnswerInTime(let time): "no answer within \(time.components.seconds) s"
        case .closed: "it closed the connection without an answer"
        case .untrusted: "its certificate is not trusted"
        case .foreignCertificate: "its certificate is for another host"
        case .tls(let reason): "TLS: \(reason)"
        case .cancelled: "cancelled"
        case .other(let reason): reason
        }
    }
}
