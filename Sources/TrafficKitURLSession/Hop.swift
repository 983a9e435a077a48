import Foundation
import FoundationNetworking
import Synchronization
import TrafficKit
import TrafficReport

/// One exchange of a task; redirects make further exchanges. The library watches the sockets from `init` on.
struct Hop {
    let number: UInt64
    let index: UInt16
    let request: URLRequest
    /// Bytes of the body. `nil`: the body is a stream.
    let body: UInt64?
    /// `nil`: the app keeps the exchange out, or the monitor does not run.
    let name: Report.Name?
    let startedAt: UInt64
    private let port: UInt16
    private let ticket: UInt64
    /// The sockets before the exchange, by cookie. `nil`: the process has too many descriptors to look at.
    private let before: [UInt64: SocketFacts]?

    /// - Parameters:
    ///   - request: As the session sends the request, with the session's cookies for it.
    ///   - body: The body's length, `nil` if it is unknown.
    init(_ request: URLRequest, body: UInt64?, index: UInt16, _ monitor: TrafficMonitor) {
        (self.request, self.body, self.index) = (request, body, index)
        self.number = monitor.makeExchange()
        self.name = monitor.name(method: request.method, host: request.url?.host ?? "", target: request.target)
        let port = request.url?.remotePort ?? 0
        self.port = port
        self.ticket = SerialPorts.process.withLock { $0.begin(port: port) }
        self.before = OwnSockets.connected(to: port)
        self.startedAt = TrafficClock.nanoseconds()
    }

    /// Ends the exchange. To be called once.
    ///
    /// - Returns: The bytes that the exchange moved. `nil` unless exactly one socket grew, and no other exchange used
    ///   the port.
    func end() -> SocketGrowth? {
        let growth = self.before.flatMap { before in
            OwnSockets.connected(to: self.port).flatMap { SocketGrowth(from: before, to: $0) }
        }
        let isAlone = SerialPorts.process.withLock { $0.end(self.ticket, port: self.port) }
        return isAlone ? growth : nil
    }

    /// The record of the exchange, so far without its parts. `nil`: the exchange is not reported.
    var record: Report.Exchange? {
        guard let name = self.name else { return nil }
        var exchange = Report.Exchange(number: self.number, name: name)
        (exchange.hop, exchange.role, exchange.startedAt) = (self.index, .client, self.startedAt)
        return exchange
    }
}

extension URL {
    var remotePort: UInt16? {
        if let port = self.port { return UInt16(exactly: port) }
        return switch self.scheme?.lowercased() {
        case "http": 80
        case "https": 443
        default: nil
        }
    }
}

extension URLRequest {
    var method: String { self.httpMethod ?? "GET" }

    /// The origin form (RFC 9112 section 3.2.1).
    var target: String {
        guard let url = self.url, let parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else { return "/" }
        let path = parts.percentEncodedPath
        return (path.isEmpty ? "/" : path) + (parts.percentEncodedQuery.map { "?" + $0 } ?? "")
    }

    var isPlain: Bool { self.url?.scheme?.lowercased() == "http" }

    /// Adds the cookies that a session without a delegate sets on every hop. With a delegate, the session leaves this
    /// to the delegate.
    func withCookies(of configuration: URLSessionConfiguration) -> URLRequest {
        guard configuration.httpShouldSetCookies, let url = self.url,
            let cookies = configuration.httpCookieStorage?.cookies(for: url),
            let value = HTTPCookie.requestHeaderFields(with: cookies)["Cookie"], !value.isEmpty
        else { return self }
        var request = self
        request.setValue(value, forHTTPHeaderField: "Cookie")
        return request
    }
}
