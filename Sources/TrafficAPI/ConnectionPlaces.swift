import NIOCore
import NIOHTTPTypes
import Synchronization

/// The connections of one listener. A new one always gets a place. If there are too many, another gives way: the one whose
/// client the server has waited for longest, or, if it waits for none, the one that is being answered for longest.
///
/// Strangers share a listener. Whoever opens connections and says nothing, asks slowly, or does not read, must not keep
/// others out.
final class ConnectionPlaces: Sendable {
    private struct Entry {
        let channel: any Channel
        /// Later connections, requests and answers have higher numbers.
        var number: UInt64
        /// A whole request has come whose answer is not complete.
        var isBeingAnswered = false

        /// The lowest one gives way.
        var rank: (Int, UInt64) { (self.isBeingAnswered ? 1 : 0, self.number) }
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var last: UInt64 = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    /// For a new connection.
    func handler() -> some ChannelDuplexHandler & RemovableChannelHandler { ConnectionPlace(self) }

    fileprivate func add(_ channel: any Channel) {
        let surplus = self.state.withLock { state -> (any Channel)? in
            var surplus: (any Channel)?
            if state.entries.count >= self.limit, let first = state.entries.values.min(by: { $0.rank < $1.rank }) {
                state.entries[ObjectIdentifier(first.channel)] = nil
                surplus = first.channel
            }
            state.last += 1
            state.entries[ObjectIdentifier(channel)] = Entry(channel: channel, number: state.last)
            return surplus
        }
        // Outside the lock: it may call `remove(_:)`.
        surplus?.close(promise: nil)
    }

    fileprivate func note(_ channel: any Channel, isBeingAnswered: Bool) {
        self.state.withLock { state in
            guard let index = state.entries.index(forKey: ObjectIdentifier(channel)) else { return }
            state.last += 1
            state.entries.values[index].isBeingAnswered = isBeingAnswered
            state.entries.values[index].number = state.last
        }
    }

    fileprivate func remove(_ channel: any Channel) {
        self.state.withLock { _ = $0.entries.removeValue(forKey: ObjectIdentifier(channel)) }
    }
}

/// Tells what one connection is doing.
private final class ConnectionPlace: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart

    private let places: ConnectionPlaces
    // Ends of messages. An answer may end before its request does, and requests may come before earlier answers end.
    private var requests = 0
    private var answers = 0

    init(_ places: ConnectionPlaces) { self.places = places }

    func handlerAdded(context: ChannelHandlerContext) { self.places.add(context.channel) }

    func handlerRemoved(context: ChannelHandlerContext) { self.places.remove(context.channel) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = Self.unwrapInboundIn(data) {
            self.requests += 1
            self.places.note(context.channel, isBeingAnswered: self.requests > self.answers)
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = Self.unwrapOutboundIn(data) {
            self.answers += 1
            self.places.note(context.channel, isBeingAnswered: self.requests > self.answers)
        }
        context.write(data, promise: promise)
    }
}
