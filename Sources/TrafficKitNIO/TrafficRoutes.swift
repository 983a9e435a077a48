import Synchronization
import TrafficReport

/// What a server's router calls the requests of one connection.
///
/// A request is complete before its route is known: it is reported when that is, or with its redacted path when its response has ended.
/// With HTTP/1.x the server hands requests to its router one after the other, in their order; with HTTP/2 each has the number of its stream.
public final class TrafficRoutes: Sendable {
    private struct State {
        /// Requests that the router was given.
        var begun = 0
        /// By the number of the request, or its stream's.
        var templates: [Int: String] = [:]
        /// Exchanges on the connection.
        var made = 0
        var numbers: [UInt64: Int] = [:]
    }

    /// Exchanges whose names are kept: of those that the app keeps out nobody asks.
    private static let most = 1_000

    private let state = Mutex(State())

    public init() {}

    /// The router is given the next request.
    public func beginRequest() {
        self.state.withLock { $0.begun += 1 }
    }

    /// - Parameter template: Of the request that the router was given last, such as `/users/{id}`.
    public func name(_ template: String) {
        self.state.withLock { state in
            if state.templates.count >= Self.most { state.templates = [:] }
            state.templates[state.begun] = template
        }
    }

    /// - Parameter stream: Of HTTP/2.
    public func name(_ template: String, ofStream stream: Int) {
        self.state.withLock { state in
            if state.templates.count >= Self.most { state.templates = [:] }
            state.templates[stream] = template
        }
    }

    func began(exchange: UInt64, stream: Int? = nil) {
        self.state.withLock { state in
            if state.numbers.count >= Self.most {
                let newest = Set(state.numbers.keys.sorted().suffix(Self.most / 2))
                state.numbers = state.numbers.filter { newest.contains($0.key) }
            }
            state.made += 1
            state.numbers[exchange] = stream ?? state.made
        }
    }

    func template(of exchange: UInt64) -> String? {
        self.state.withLock { state in state.numbers[exchange].flatMap { state.templates[$0] } }
    }

    func ended(exchange: UInt64) {
        self.state.withLock { state in
            if let number = state.numbers.removeValue(forKey: exchange) { state.templates[number] = nil }
        }
    }
}

/// Puts routes into records, and holds requests back until they have one.
struct RoutedRecords {
    let routes: TrafficRoutes
    private var held: [Report.Message] = []

    init(_ routes: TrafficRoutes) {
        self.routes = routes
    }

    mutating func pass(_ record: Report.Record, _ report: (Report.Record) -> Void) {
        switch record {
        case .request(let message):
            self.held.append(message)
            self.release(report)
        case .response(var message):
            self.release(message.exchange, report)
            message.route = self.routes.template(of: message.exchange) ?? message.route
            report(.response(message))
        case .outcome(var outcome):
            self.release(outcome.exchange, report)
            outcome.route = self.routes.template(of: outcome.exchange) ?? outcome.route
            self.routes.ended(exchange: outcome.exchange)
            report(.outcome(outcome))
        case .connection:
            report(record)
        }
    }

    /// Reports requests that have a name by now, in their order.
    mutating func release(_ report: (Report.Record) -> Void) {
        while var message = self.held.first, let template = self.routes.template(of: message.exchange) {
            message.route = template
            report(.request(message))
            self.held.removeFirst()
        }
    }

    /// Reports the request of an exchange, with a name or without.
    private mutating func release(_ exchange: UInt64, _ report: (Report.Record) -> Void) {
        self.release(report)
        guard let index = self.held.firstIndex(where: { $0.exchange == exchange }) else { return }
        report(.request(self.held.remove(at: index)))
    }
}
