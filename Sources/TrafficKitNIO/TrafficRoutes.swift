import Synchronization
package import TrafficKit

/// What a server's router calls the requests of one connection.
///
/// A request is complete before its route is known: it is reported when it is answered. One that the router has not named by then is `_unmatched`,
/// whatever its path: strangers choose paths, and each would be a row for ever.
/// With HTTP/1.x the server hands requests to its router one after the other, in their order; with HTTP/2 each has the number of its stream.
public final class TrafficRoutes: Sendable {
    private struct Named {
        /// Of the request, or its stream.
        var number: Int
        var answer: RouteAnswer
    }

    private struct State {
        /// Requests that the router was given.
        var begun = 0
        /// Few: of requests that are answered at this moment. Linear search beats a dictionary.
        var named: [Named] = []

        mutating func name(_ answer: RouteAnswer, _ number: Int) {
            if let index = self.named.lastIndex(where: { $0.number == number }) {
                self.named[index].answer = answer
            } else {
                if self.named.count >= TrafficRoutes.most { self.named.removeFirst(TrafficRoutes.most / 2) }
                self.named.append(Named(number: number, answer: answer))
            }
        }
    }

    /// Requests whose names are kept: of those that the app keeps out nobody asks.
    private static let most = 1_000

    private let state = Mutex(State())
    /// Somebody asks for them.
    private let wanted = Atomic<Bool>(true)
    private let router: RouterPresence

    public convenience init() {
        let router = RouterPresence()
        router.note()
        self.init(of: router)
    }

    /// - Parameter router: While it has told nothing on any connection, it is taken for none: requests are then called by their paths.
    package init(of router: RouterPresence) {
        self.router = router
    }

    /// The router is given the next request.
    public func beginRequest() {
        guard self.isWanted else { return }
        self.state.withLock { $0.begun += 1 }
    }

    /// - Parameter template: Of the request that the router was given last, such as `/users/{id}`.
    public func name(_ template: String) { self.answer(.template(template)) }

    /// - Parameter stream: Of HTTP/2.
    public func name(_ template: String, ofStream stream: Int) { self.answer(.template(template), ofStream: stream) }

    /// - Parameter stream: Of HTTP/2. `nil`: of the request that the router was given last.
    package func answer(_ answer: RouteAnswer, ofStream stream: Int? = nil) {
        guard self.isWanted else { return }
        self.state.withLock { $0.name(answer, stream ?? $0.begun) }
    }

    /// Whether names are asked for: not while nobody listens to the connection.
    package var isWanted: Bool { self.wanted.load(ordering: .relaxed) }

    /// The next request is the first one whose name is asked for, or none is from now on.
    func begin(isWanted: Bool) {
        self.state.withLock { $0 = State() }
        self.wanted.store(isWanted, ordering: .relaxed)
    }
}

extension TrafficRoutes: RouteSource {
    package func takeRoute(ofRequest number: Int) -> RouteAnswer {
        let answer = self.state.withLock { state -> RouteAnswer? in
            guard let index = state.named.firstIndex(where: { $0.number == number }) else { return nil }
            return state.named.remove(at: index).answer
        }
        return answer ?? (self.router.isThere ? .unmatched : .path)
    }
}

/// Whether a server's router tells its routes, which is known once it does.
package final class RouterPresence: Sendable {
    private let has = Atomic<Bool>(false)

    package init() {}

    package var isThere: Bool { self.has.load(ordering: .relaxed) }

    /// It does.
    package func note() {
        // Written once: all threads of a server read it.
        if !self.isThere { self.has.store(true, ordering: .relaxed) }
    }
}
