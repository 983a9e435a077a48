public import AsyncHTTPClient
public import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
public import TrafficKit
import TrafficReport

#if canImport(Glibc)
import Glibc
#endif

extension HTTPClient {
    /// Executes a request, and reports it if it fails before there is a connection. Then no byte of the request is
    /// sent, so no connection reports it.
    ///
    /// The connection reports later failures, and this function does not. If a redirect leads to a server that can't be
    /// reached, this function reports the first request.
    ///
    /// - Throws: What `execute(_:deadline:)` throws.
    @inline(__always)  // `execute(_:timeout:reportingTo:)` needs no frame of its own for this
    public func execute(
        _ request: HTTPClientRequest,
        deadline: NIODeadline,
        reportingTo monitor: TrafficMonitor
    ) async throws -> HTTPClientResponse {
        let start = TrafficClock.nanoseconds()
        do {
            return try await self.execute(request, deadline: deadline)
        } catch {
            guard let ending = Report.Ending(beforeConnection: error) else { throw error }
            let (host, target) = Self.parts(of: request.url)
            if let name = monitor.name(method: request.method.rawValue, host: host, target: target) {
                var exchange = Report.Exchange(number: monitor.makeExchange(), name: name)
                (exchange.startedAt, exchange.role) = (start, .client)
                var outcome = Report.Exchange.Outcome()
                outcome.duration = TrafficClock.nanoseconds() - start
                outcome.ending = ending
                exchange.outcome = outcome
                monitor.report(.exchange(exchange))
            }
            throw error
        }
    }

    /// The same, with a timeout in place of a deadline.
    public func execute(
        _ request: HTTPClientRequest,
        timeout: TimeAmount,
        reportingTo monitor: TrafficMonitor
    ) async throws -> HTTPClientResponse {
        try await self.execute(request, deadline: .now() + timeout, reportingTo: monitor)
    }

    /// The authority of the URL and what follows the authority (RFC 3986 section 3).
    static func parts(of url: String) -> (host: String, target: String) {
        var rest = Substring(url)
        if let colon = rest.firstIndex(of: ":"), rest[colon...].hasPrefix("://") {
            rest = rest[rest.index(colon, offsetBy: 3)...]
        }
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        let target = rest[end...].prefix { $0 != "#" }
        return (String(rest[..<end]), target.hasPrefix("/") ? String(target) : "/" + target)
    }
}

extension Report.Ending {
    /// - Returns: `nil` if there was a connection, or may have been.
    init?(beforeConnection error: any Error) {
        switch error {
        case let error as NIOConnectionError:
            if error.connectionErrors.isEmpty {
                self = .dns
            } else if let last = error.connectionErrors.last?.error {
                self = Self(connecting: last)
            } else {
                self = .unknown
            }
        case let error as IOError where error.errnoCode == ECONNREFUSED: self = .refused
        case let error as HTTPClientError
        where [.connectTimeout, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout].contains(error):
            self = error == .tlsHandshakeTimeout ? .tls : .timeout
        case NIOSSLError.handshakeFailed: self = .tls
        case let error as NIOSSLExtraError where error == .failedToValidateHostname: self = .tls
        default: return nil
        }
    }

    private init(connecting error: any Error) {
        switch error {
        case ChannelError.connectTimeout: self = .timeout
        case let error as IOError:
            switch error.errnoCode {
            case ECONNREFUSED: self = .refused
            case ETIMEDOUT: self = .timeout
            case ECONNRESET: self = .reset
            default: self = .unknown
            }
        default: self = .unknown
        }
    }
}
