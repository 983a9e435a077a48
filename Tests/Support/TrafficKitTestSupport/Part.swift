public import TrafficReport

/// A request, a response or an outcome, together with its exchange: `part.status`, `part.route`.
@dynamicMemberLookup
public struct Part<Content: Hashable & Sendable>: Hashable, Sendable {
    public let exchange: Report.Exchange
    public let content: Content

    init?(_ exchange: Report.Exchange, _ content: Content?) {
        guard let content else { return nil }
        (self.exchange, self.content) = (exchange, content)
    }

    public subscript<Value>(dynamicMember path: KeyPath<Report.Exchange, Value>) -> Value {
        self.exchange[keyPath: path]
    }

    public subscript<Value>(dynamicMember path: KeyPath<Content, Value>) -> Value { self.content[keyPath: path] }
}

public typealias MessagePart = Part<Report.Exchange.Message>
public typealias OutcomePart = Part<Report.Exchange.Outcome>

extension Part where Content == Report.Exchange.Message {
    /// When the message began, not its exchange.
    public var startedAt: UInt64 { self.content.startedAt }
}

extension Report.Record {
    public var exchange: Report.Exchange? { if case .exchange(let exchange) = self { exchange } else { nil } }
    public var connection: Report.Connection? { if case .connection(let connection) = self { connection } else { nil } }
}

extension Report.Exchange {
    /// An exchange of which only the request is known.
    public static func request(_ number: UInt64, name: Report.Name = .none) -> Report.Exchange {
        var exchange = Report.Exchange(number: number, name: name)
        exchange.request = .init()
        return exchange
    }
}

extension Sequence<Report.Record> {
    public var exchanges: [Report.Exchange] { self.compactMap(\.exchange) }
    public var requests: [MessagePart] { self.exchanges.compactMap { Part($0, $0.request) } }
    public var responses: [MessagePart] { self.exchanges.compactMap { Part($0, $0.response) } }
    public var messages: [MessagePart] {
        self.exchanges.flatMap { [Part($0, $0.request), Part($0, $0.response)].compactMap(\.self) }
    }
    public var outcomes: [OutcomePart] { self.exchanges.compactMap { Part($0, $0.outcome) } }
    public var connections: [Report.Connection] { self.compactMap(\.connection) }
}
