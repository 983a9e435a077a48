import Synchronization
public import TrafficKit
public import TrafficReport

/// Collects what is reported in this process.
public final class Records: TrafficObserver {
    private let observed = Mutex<[Report.Record]>([])

    public init() {}

    public func observe(_ record: Report.Record) { self.observed.withLock { $0.append(record) } }

    public var all: [Report.Record] { self.observed.withLock { $0 } }
    public var exchanges: [Report.Exchange] { self.observed.withLock { $0.exchanges } }
    public var requests: [MessagePart] { self.observed.withLock { $0.requests } }
    public var responses: [MessagePart] { self.observed.withLock { $0.responses } }
    public var outcomes: [OutcomePart] { self.observed.withLock { $0.outcomes } }
    /// The last record of each connection.
    public var connections: [UInt64: Report.Connection] {
        self.observed.withLock { $0.connections.reduce(into: [:]) { $0[$1.cookie] = $1 } }
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

    private static func sum(_ messages: [MessagePart]) -> UInt64 {
        messages.reduce(0) { $0 + $1.interval.bytes }
    }

    private static func sum(_ remainder: Report.Connection.Remainder) -> UInt64 {
        remainder.tls + remainder.framing + remainder.opaque + remainder.excluded
    }
}
