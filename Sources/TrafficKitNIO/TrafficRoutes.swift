import Synchronization
import TrafficKit

/// What a server's router calls the requests of one connection.
///
/// A request is complete before its route is known: it is reported when it is answered, with its redacted path if the router has no name for it.
/// With HTTP/1.x the server hands requests to its router one after the other, in their order; with HTTP/2 each has the number of its stream.
public final class TrafficRoutes: Sendable {
    private struct Template {
        /// Of the request, or its stream.
        var number: Int
        var template: String
    }

    private struct State {
        /// Requests that the router was given.
        var begun = 0
        /// Few: of requests that are answered at this moment. Linear search beats a dictionary.
        var templates: [Template] = []

        mutating func name(_ template: String, _ number: Int) {
            if let index = self.templates.lastIndex(where: { $0.number == number }) {
                self.templates[index].template = template
            } else {
                if self.templates.count >= TrafficRoutes.most { self.templates.removeFirst(TrafficRoutes.most / 2) }
                self.templates.append(Template(number: number, template: template))
            }
        }
    }

    /// Requests whose names are kept: of those that the app keeps out nobody asks.
    private static let most = 1_000

    private let state = Mutex(State())

    public init() {}

    /// The router is given the next request.
    public func beginRequest() {
        self.state.withLock { $0.begun += 1 }
    }

    /// - Parameter template: Of the request that the router was given last, such as `/users/{id}`.
    public func name(_ template: String) {
        self.state.withLock { $0.name(template, $0.begun) }
    }

    /// - Parameter stream: Of HTTP/2.
    public func name(_ template: String, ofStream stream: Int) {
        self.state.withLock { $0.name(template, stream) }
    }
}

extension TrafficRoutes: RouteSource {
    package func takeTemplate(ofRequest number: Int) -> String? {
        self.state.withLock { state in
            guard let index = state.templates.firstIndex(where: { $0.number == number }) else { return nil }
            return state.templates.remove(at: index).template
        }
    }
}
