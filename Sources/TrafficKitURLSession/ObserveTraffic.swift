import Foundation
public import FoundationNetworking
import Synchronization
public import TrafficKit
import TrafficReport

extension URLSessionConfiguration {
    /// Reports the requests of the sessions that are made with this configuration, from now on, without being in their way.
    ///
    /// A protocol class sees every task once, when it begins, and declines it: the session works as it would without, and so do the
    /// app's own protocol classes, which are asked next. What is reported is the request alone, `estimated`: method, host, route and, if the request
    /// says it, the body's length. Its fields, redirects and its response pass unseen; ``TrafficSession`` sees those. Calling this twice is calling
    /// it once.
    ///
    /// - Parameter monitor: What is told. It stays in memory: the class can't be taken back from sessions.
    public func observeTraffic(monitor: TrafficMonitor = .shared) {
        let observer = Observers.shared.withLock { $0.observer(for: monitor) }
        let others = self.protocolClasses ?? []
        guard !others.contains(where: { $0 == observer }) else { return }
        self.protocolClasses = [observer] + others
    }
}

/// A class for each monitor: a protocol class is asked by its type, and knows nothing else of whom it works for.
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

/// Numbers among types.
private protocol Place {}
private enum First: Place {}
private enum Next<Previous: Place>: Place {}

private final class PassiveObserver<Number: Place>: URLProtocol {
    /// Called under locks of the task's: what is told must not wait, and not ask the session anything.
    override class func canInit(with request: URLRequest) -> Bool {
        guard let url = request.url, url.remotePort != nil,
            let monitor = Observers.shared.withLock({ $0.monitor(of: self) }), monitor.hasListener,
            let name = monitor.name(method: request.method, host: url.host ?? "", target: request.target)
        else { return false }
        var message = Report.Message(exchange: monitor.makeExchange(), name: name)
        message.startedAt = TrafficClock.nanoseconds()
        message.finishedAt = message.startedAt
        message.role = .client
        message.quality = .estimated
        // An upload's body is the task's and not here.
        message.bodyBytes = UInt64(request.httpBody?.count ?? 0)
        message.declaredBodyBytes = request.value(forHTTPHeaderField: "Content-Length").flatMap { UInt64($0) }
        monitor.report(.request(message))
        return false
    }
}
