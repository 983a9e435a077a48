import Foundation
import FoundationNetworking
import Synchronization
import TrafficKit
import TrafficReport

/// One exchange of a task, which may be redirected to further ones: from here on the sockets are watched.
struct Hop {
    let exchange: UInt64
    let index: UInt16
    let request: URLRequest
    /// `nil`: a stream.
    let body: UInt64?
    /// `nil`: the app keeps it out, or nobody listens.
    let name: Report.Name?
    let startedAt: UInt64
    private let port: UInt16
    private let ticket: UInt64
    /// `nil`: there are too many to look at.
    private let before: [UInt64: SocketFacts]?

    /// - Parameters:
    ///   - request: As the session sends it, with the cookies that it has for it.
    ///   - body: Its length, `nil` if nobody knows it.
    init(_ request: URLRequest, body: UInt64?, index: UInt16, _ monitor: TrafficMonitor) {
        (self.request, self.body, self.index) = (request, body, index)
        self.exchange = monitor.makeExchange()
        self.name = monitor.name(method: request.method, host: request.url?.host ?? "", target: request.target)
        let port = request.url?.remotePort ?? 0
        self.port = port
        self.ticket = SerialPorts.process.withLock { $0.begin(port: port) }
        self.before = OwnSockets.connected(to: port)
        self.startedAt = TrafficClock.nanoseconds()
    }

    /// To be called once.
    ///
    /// - Returns: What the exchange moved, where one socket grew, by no less than the exchange takes, and nobody else had a part in it.
    func end() -> SocketGrowth? {
        let growth = self.before.flatMap { before in
            OwnSockets.connected(to: self.port).flatMap { SocketGrowth(from: before, to: $0) }
        }
        let isAlone = SerialPorts.process.withLock { $0.end(self.ticket, port: self.port) }
        return isAlone ? growth : nil
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

    /// A session without a delegate sets cookies on every hop; one with a delegate leaves that to it.
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
