import Foundation
public import FoundationNetworking
import Synchronization
public import TrafficKit
import TrafficReport

extension URLSessionConfiguration {
    /// Reports the requests of all sessions that are made with this configuration from now on, and does not change
    /// them.
    ///
    /// The library adds a protocol class that sees every task once, when the task begins, and declines the task. So the
    /// session works as before, and so do the app's own protocol classes, which are asked next. Only the request is
    /// reported, as `estimated`: method, host, route and, if the request says so, the body's length. Its fields,
    /// redirects and its response are not seen; ``TrafficSession`` sees them. A second call changes nothing.
    ///
    /// - Parameter monitor: Gets the records. The monitor stays in memory, because the class cannot be taken back from
    ///   sessions.
    public func observeTraffic(monitor: TrafficMonitor = .shared) {
        let observer = Observers.shared.withLock { $0.observer(for: monitor) }
        let others = self.protocolClasses ?? []
        guard !others.contains(where: { $0 == observer }) else { return }
        self.protocolClasses = [observer] + others
    }
}

/// A protocol class for each monitor: URLSession asks a class by its type, so only the type can tell which monitor it
/// is for.
struct Observers {
    static let shared = Mutex(Observers())

    private var last: any Place.Type = First.self
    private var observers: [(monitor: TrafficMonitor, type: URLProtocol.Type)] = []

    mutating func observer(for monitor: TrafficMonitor) -> URLProtocol.Type {
        if let known = self.observers.first(where: { $0.monitor === monitor }) { return known.type }
        let type = Self.observer(at: self.last)
        self.observers.append((monitor, type))
        self.last = Self.place(after: self.last)
        return type
    }

    func monitor(of type: URLProtocol.Type) -> TrafficMonitor? {
        self.observers.first { $0.type == type }?.monitor
    }

    private static func observer<Number: Place>(at place: Number.Type) -> URLProtocol.Type {
        PassiveObserver<Number>.self
    }

    private static func place<Number: Place>(after place: Number.Type) -> any Place.Type {
        Next<Number>.self
    }
}

/// Numbers as types: each monitor needs a type of its own.
private protocol Place {}
private enum First: Place {}
private enum Next<Previous: Place>: Place {}

private final class PassiveObserver<Number: Place>: URLProtocol {
    /// URLSession calls this while it holds locks of the task. So observers must not wait, and must not call the
    /// session.
    override class func canInit(with request: URLRequest) -> Bool {
        guard let url = request.url, url.remotePort != nil,
            let monitor = Observers.shared.withLock({ $0.monitor(of: self) }), monitor.hasListener,
            let name = monitor.name(method: request.method, host: url.host ?? "", target: request.target)
        else { return false }
        var exchange = Report.Exchange(number: monitor.makeExchange(), name: name)
        (exchange.startedAt, exchange.role) = (TrafficClock.nanoseconds(), .client)
        var message = Report.Exchange.Message()
        (message.startedAt, message.finishedAt) = (exchange.startedAt, exchange.startedAt)
        message.quality = .estimated
        // The body of an upload belongs to the task and is not in the request.
        message.bodyBytes = UInt64(request.httpBody?.count ?? 0)
        message.declaredBodyBytes = request.value(forHTTPHeaderField: "Content-Length").flatMap { UInt64($0) }
        exchange.request = message
        monitor.report(.exchange(exchange))
        return false
    }
}
