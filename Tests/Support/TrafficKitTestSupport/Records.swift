import Synchronization
public import TrafficKit
public import TrafficReport

/// Collects what is reported in this process.
public final class Records: TrafficObserver {
    private let all = Mutex<[Report.Record]>([])

    public init() {}

    public func observe(_ record: Report.Record) { self.all.withLock { $0 += record.parts } }

    public var requests: [Report.Message] {
        self.all.withLock { $0.compactMap { if case .request(let it) = $0 { it } else { nil } } }
    }
    public var responses: [Report.Message] {
        self.all.withLock { $0.compactMap { if case .response(let it) = $0 { it } else { nil } } }
    }
    public var outcomes: [Report.Outcome] {
        self.all.withLock { $0.compactMap { if case .outcome(let it) = $0 { it } else { nil } } }
    }
    /// The last record of each connection.
    public var connections: [UInt64: Report.Connection] {
        self.all.withLock { records in
            records.reduce(into: [:]) { if case .connection(let it) = $1 { $0[it.cookie] = it } }
        }
    }

    /// Bytes of all sockets that the records explain.
    public func bytes(role: Report.Role) -> CountingProxy.Bytes {
        let (requests, responses) = (Self.sum(self.requests), Self.sum(self.responses))
        let sent = self.connections.values.reduce(0) { $0 + Self.sum($1.sent) }
        let received = self.connections.values.reduce(0) { $0 + Self.sum($1.received) }
        return role == .client
            ? .init(toServer: requests + sent, toClient: responses + received)
            : .init(toServer: requests + received, toClient: responses + sent)
    }

    private static func sum(_ messages: [Report.Message]) -> UInt64 {
        messages.reduce(0) { $0 + $1.interval.bytes }
    }

    private static func sum(_ remainder: Report.Connection.Remainder) -> UInt64 {
        remainder.tls + remainder.framing + remainder.opaque + remainder.excluded
    }
}

extension Report.Record {
    /// The parts of an exchange as records of their own; other records as they are.
    public var parts: [Report.Record] {
        if case .exchange(let exchange) = self { exchange.parts } else { [self] }
    }
}
