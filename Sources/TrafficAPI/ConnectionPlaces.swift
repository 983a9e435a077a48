import NIOCore
import NIOHTTPTypes
import Synchronization

/// The connections of one listener. If there are too many, the oldest one gives way that waits for its client: then the
/// connection that has been answered for the longest time.
///
/// Strangers share a listener. Whoever opens connections and says nothing, asks slowly, or does not read, must not keep
/// others out. A client that asks at once is answered before its turn to give way.
final class ConnectionPlaces: Sendable {
    private struct Entry {
        let channel: any Channel
        /// Later connections and later requests have higher numbers.
        var number: UInt64
        /// A whole request has come, and its answer is not complete.
        var isAnswered = false
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
            state.last += 1
            state.entries[ObjectIdentifier(channel)] = Entry(channel: channel, number: state.last)
            guard state.entries.count > self.limit else { return nil }
            let oldest = state.entries.values.min {
                (($0.isAnswered ? 1 : 0), $0.number) < (($1.isAnswered ? 1 : 0), $1.number)
            }
            if let oldest { state.entries[ObjectIdentifier(oldest.channel)] = nil }
            return oldest?.channel
        }
        // Outside the lock: it may call `remove(_:)`.
        surplus?.close(promise: nil)
    }

    fileprivate func note(_ channel: any Channel, isAnswered: Bool) {
        self.state.withLock { state in
            state.last += 1
            let number = state.last
            state.entries[ObjectIdentifier(channel)]?.isAnswered = isAnswered
            state.entries[ObjectIdentifier(channel)]?.number = number
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

    init(_ places: ConnectionPlaces) { self.places = places }

    func handlerAdded(context: ChannelHandlerContext) { self.places.add(context.channel) }

    func handlerRemoved(context: ChannelHandlerContext) { self.places.remove(context.channel) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = Self.unwrapInboundIn(data) { self.places.note(context.channel, isAnswered: true) }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = Self.unwrapOutboundIn(data) { self.places.note(context.channel, isAnswered: false) }
        context.write(data, promise: promise)
    }
}
