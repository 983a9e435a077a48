import Foundation
import FoundationNetworking
import TrafficReport

extension Report.Ending {
    /// - Parameter hasResponse: The head of a response has come.
    init(_ error: any Error, hasResponse: Bool) {
        guard let error = error as? URLError else {
            self = .unknown
            return
        }
        switch error.code {
        case .cannotConnectToHost: self = .refused
        case .cannotFindHost, .dnsLookupFailed: self = .dns
        case .timedOut: self = .timeout
        case .cancelled: self = .cancelled
        case .badServerResponse: self = .truncated  // the server closed without an answer
        case .networkConnectionLost: self = .reset
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate: self = .tls
        // Errors that libcurl tells apart and URLSession does not.
        case .unknown where hasResponse: self = .truncated
        case .unknown where error.localizedDescription.contains("SSL"): self = .tls
        default: self = .unknown
        }
    }

    /// The session had no connection, so it sent no request.
    var isBeforeRequest: Bool { self == .refused || self == .dns || self == .tls || self == .unknown }
}
