package import NIOCore
import Synchronization
package import TrafficKit

/// The names that a server's router gives the requests of one connection.
///
/// A request is complete before its route is known, so a request is reported when the server answers it. If the router
/// has not named the request by then, its route is `_unmatched`, whatever its path: strangers choose paths, and each
/// path would be a row forever. With HTTP/1.x the server gives its router one request after the other, in their order.
/// With HTTP/2 each request has the number of its stream.
public final class TrafficRoutes: Sendable {
    private struct Named {
        /// The number of the request, or of its stream.
        var number: Int
        var answer: RouteAnswer
    }

    private struct State {
        /// Requests that the router was given.
        var begun = 0
        /// Names of requests that are being answered now. They are few, so a linear search is faster than a dictionary.
        var named: [Named] = []
        /// Names of streams whose numbers are not known yet.
        var streams: [(channel: any Channel, answer: RouteAnswer)] = []
        /// Streams whose requests are being answered, with the tasks that answer them.
        var answering: [(task: UInt, channel: any Channel)] = []

        mutating func name(_ answer: RouteAnswer, _ number: Int) {
            if let index = self.named.lastIndex(where: { $0.number == number }) {
                self.named[index].answer = answer
            } else {
                if self.named.count >= TrafficRoutes.most { self.named.removeFirst(TrafficRoutes.most / 2) }
                self.named.append(Named(number: number, answer: answer))
            }
        }
    }

    /// The most names that are kept. A name can stay: the router may name a request after its exchange has ended.
    private static let most = 1_000

    private let state = Mutex(State())
    /// The connection is counted, so names are asked for.
    private let wanted = Atomic<Bool>(true)
    package let router: RouterPresence
    /// Asks a stream's channel for the number of the stream, on the channel's event loop.
    private let streamNumber: @Sendable (any Channel) -> Int?

    public convenience init() {
        let router = RouterPresence()
        router.note()
        self.init(of: router)
    }

    /// - Parameters:
    ///   - router: While the router has reported nothing on any connection, this object assumes that there is no
    ///     router. Requests are then named by their paths.
    ///   - streamNumber: For ``beginRequest(ofStreamOf:in:)``. Called on the channel's event loop.
    package init(
        of router: RouterPresence,
        streamNumber: @escaping @Sendable (any Channel) -> Int? = { _ in nil }
    ) {
        (self.router, self.streamNumber) = (router, streamNumber)
    }

    /// Call this when the router is given the next request.
    public func beginRequest() {
        guard self.isWanted else { return }
        self.state.withLock { $0.begun += 1 }
    }

    /// - Parameter template: The route of the request that the router was given last, such as `/users/{id}`.
    public func name(_ template: String) { self.answer(.template(template)) }

    /// - Parameter stream: The number of the HTTP/2 stream.
    public func name(_ template: String, ofStream stream: Int) { self.answer(.template(template), ofStream: stream) }

    /// - Parameter stream: The number of the HTTP/2 stream. `nil`: the request that the router was given last.
    package func answer(_ answer: RouteAnswer, ofStream stream: Int? = nil) {
        guard self.isWanted else { return }
        self.state.withLock { $0.name(answer, stream ?? $0.begun) }
    }

    // MARK: Streams by their channels

    /// Call this in place of ``beginRequest()`` when the router is given the request of an HTTP/2 stream, on another
    /// thread than the stream's channel, which cannot be asked for its number there.
    ///
    /// - Parameter task: A number of the task that answers the request.
    package func beginRequest(ofStreamOf channel: any Channel, in task: UInt) {
        guard self.isWanted else { return }
        self.state.withLock { $0.answering.append((task, channel)) }
    }

    /// Names the request that the router was given last, or the stream whose request this task answers.
    package func answer(_ answer: RouteAnswer, in task: () -> UInt) {
        self.state.withLock { state in
            guard state.begun == 0 else { return state.name(answer, state.begun) }
            let task = task()
            guard let index = state.answering.firstIndex(where: { $0.task == task }) else { return }
            if state.streams.count >= Self.most { state.streams.removeFirst(Self.most / 2) }
            state.streams.append((state.answering[index].channel, answer))
        }
    }

    /// The task has answered.
    package func endRequest(in task: UInt) {
        self.state.withLock { state in
            guard let index = state.answering.firstIndex(where: { $0.task == task }) else { return }
            state.answering.remove(at: index)
        }
    }

    /// Whether names are asked for. They are not while the connection is not counted.
    package var isWanted: Bool { self.wanted.load(ordering: .relaxed) }

    /// Starts again: names are asked for from the next request on, or not at all from now on.
    func begin(isWanted: Bool) {
        self.state.withLock { $0 = State() }
        self.wanted.store(isWanted, ordering: .relaxed)
    }
}

extension TrafficRoutes: RouteSource {
    package func takeRoute(ofRequest number: Int) -> RouteAnswer {
        let answer = self.state.withLock { state -> RouteAnswer? in
            // Connection and streams share an event loop, and this is called there.
            if !state.streams.isEmpty {
                for (channel, answer) in state.streams {
                    if let stream = self.streamNumber(channel) { state.name(answer, stream) }
                }
                state.streams.removeAll(keepingCapacity: true)
            }
            guard let index = state.named.firstIndex(where: { $0.number == number }) else { return nil }
            return state.named.remove(at: index).answer
        }
        return answer ?? (self.router.isThere ? .unmatched : .path)
    }
}

/// Whether a server's router reports its routes. This is known once the router has done so.
package final class RouterPresence: Sendable {
    private let has = Atomic<Bool>(false)

    package init() {}

    package var isThere: Bool { self.has.load(ordering: .relaxed) }

    /// The router reports its routes.
    package func note() {
        // Written once only, because all threads of a server read the value.
        if !self.isThere { self.has.store(true, ordering: .relaxed) }
    }
}
