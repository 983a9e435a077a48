import Dispatch
import NIOCore
import NIOHTTPTypes
import NIOPosix
import Synchronization
import TrafficModel

/// The connections of one listener, and who pays for each. A new one always gets a place. If there are too many, another
/// gives way: of the payer with the most, the one for whose client the server has waited longest, or else the one that is
/// being answered for longest. Root's give way only to root's.
///
/// Strangers share a listener. Whoever opens connections and says nothing, asks slowly, or does not read, must not keep
/// others out.
final class ConnectionPlaces: Sendable {
    /// Bytes. Linux would let the buffer of a connection grow to megabytes (`tcp_wmem`), and a client that does not read
    /// keeps it full.
    private static let sendBuffer: ChannelOptions.Types.SocketOption.Value = 131_072

    private struct Entry {
        let channel: any Channel
        /// Of all connections; an identifier of a channel may come again.
        let serial: UInt64
        var payer: Payer
        /// Whether requests need not wait for the payer: the kernel has said whose the connection is, or need not, or has
        /// not in time.
        var isKnown: Bool
        /// Requests that wait for the payer.
        var asking: [CheckedContinuation<Payer?, Never>] = []
        /// Later connections, requests and answers have higher numbers.
        var number: UInt64
        /// A whole request has come whose answer is not complete.
        var isBeingAnswered = false
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var last: UInt64 = 0
    }

    private let limit: Int
    private let userOfPeer: ControlServer.UserOfPeer
    /// The kernel may let a question wait (`sock_diag_mutex` before Linux 6.9), and event loops must not.
    private let questions = DispatchQueue(label: "trafficd.peers")
    /// Until the kernel answers, a connection is ``Payer/thisHost``'s or its address's. Requests wait so long for the
    /// answer.
    private let patience: TimeAmount
    private let state = Mutex(State())

    init(
        limit: Int,
        patience: TimeAmount,
        userOfPeer: @escaping ControlServer.UserOfPeer
    ) {
        (self.limit, self.patience, self.userOfPeer) = (limit, patience, userOfPeer)
    }

    /// Who pays for the answers on a connection.
    ///
    /// - Returns: `nil` if the connection has no place any more.
    func payer(of channel: any Channel) async -> Payer? {
        await withCheckedContinuation { request in
            let payer = self.state.withLock { state -> Payer?? in
                guard let index = state.entries.index(forKey: ObjectIdentifier(channel)) else { return .some(nil) }
                if state.entries.values[index].isKnown { return state.entries.values[index].payer }
                state.entries.values[index].asking.append(request)
                return nil
            }
            if let payer { request.resume(returning: payer) }
        }
    }

    /// For a new connection.
    func handler() -> some ChannelDuplexHandler & RemovableChannelHandler { ConnectionPlace(self) }

    /// Call this on the channel's event loop.
    fileprivate func add(_ channel: any Channel) {
        _ = channel.setOption(.socketOption(.so_sndbuf), value: Self.sendBuffer)
        var payer = Payer.thisHost
        var ends: (peer: TrafficModel.SocketAddress, own: TrafficModel.SocketAddress)?
        if let peer = TrafficModel.SocketAddress(channel.remoteAddress),
            let own = TrafficModel.SocketAddress(channel.localAddress)
        {
            payer = Payer(peer: peer, own: own, user: nil)
            ends = (peer, own)
        } else if let credentials = try? PeerCredentials(onEventLoopOf: channel) {
            payer = Payer(uid: credentials.uid)
        }
        let isKnown = ends == nil
        let (serial, surplus) = self.state.withLock { state in
            var surplus: Entry?
            if state.entries.count >= self.limit, let first = Self.surplus(of: state.entries.values, with: payer) {
                surplus = state.entries.removeValue(forKey: ObjectIdentifier(first.channel))
            }
            state.last += 1
            state.entries[ObjectIdentifier(channel)] = Entry(
                channel: channel,
                serial: state.last,
                payer: payer,
                isKnown: isKnown,
                number: state.last
            )
            return (state.last, surplus)
        }
        if let ends {
            // Not the channel: a client may make and leave many while a question hangs.
            self.questions.async { [weak channel] in
                if let channel { self.ask(ends.peer, ends.own, of: channel, serial: serial) }
            }
            channel.eventLoop.scheduleTask(in: self.patience) { [weak channel] in
                if let channel { self.know(nil, of: channel, serial: serial) }
            }
        }
        // Outside the lock: it may call `remove(_:)`.
        if let surplus { Self.end(surplus) }
    }

    private func ask(
        _ peer: TrafficModel.SocketAddress,
        _ own: TrafficModel.SocketAddress,
        of channel: any Channel,
        serial: UInt64
    ) {
        let isThere = self.state.withLock { $0.entries[ObjectIdentifier(channel)]?.serial == serial }
        guard isThere else { return }
        self.know(Payer(peer: peer, own: own, user: self.userOfPeer(peer, own)), of: channel, serial: serial)
    }

    /// - Parameter payer: `nil` if it takes too long to find out.
    private func know(_ payer: Payer?, of channel: any Channel, serial: UInt64) {
        let (payer, asking) = self.state.withLock { state -> (Payer?, [CheckedContinuation<Payer?, Never>]) in
            guard let index = state.entries.index(forKey: ObjectIdentifier(channel)),
                state.entries.values[index].serial == serial
            else { return (nil, []) }
            if let payer { state.entries.values[index].payer = payer }
            state.entries.values[index].isKnown = true
            defer { state.entries.values[index].asking = [] }
            return (state.entries.values[index].payer, state.entries.values[index].asking)
        }
        for request in asking { request.resume(returning: payer) }
    }

    /// Which connection gives way.
    ///
    /// - Parameter payer: Who has one more.
    private static func surplus(of entries: some Collection<Entry>, with payer: Payer) -> Entry? {
        var counts = [payer: 1]
        for entry in entries { counts[entry.payer, default: 0] += 1 }
        let strangers = entries.filter { $0.payer != Payer(uid: 0) }
        let candidates = strangers.isEmpty ? Array(entries) : strangers
        let most = candidates.map { counts[$0.payer] ?? 0 }.max()
        let ofMost = candidates.filter { counts[$0.payer] == most }
        let idle = ofMost.filter { !$0.isBeingAnswered }
        return (idle.isEmpty ? ofMost : idle).min { $0.number < $1.number }
    }

    private static func end(_ entry: Entry) {
        for request in entry.asking { request.resume(returning: nil) }
        entry.channel.close(promise: nil)
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
        let entry = self.state.withLock { $0.entries.removeValue(forKey: ObjectIdentifier(channel)) }
        for request in entry?.asking ?? [] { request.resume(returning: nil) }
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
