import TrafficModel

/// Describes a socket in one line.
struct SocketText {
    let socket: SocketUsage
    let typeface: Typeface
    let now: Timestamp
    /// Name and pid of the process, where the row stands below a remote address. `nil` where it stands below its
    /// process.
    let owner: String?

    init(_ socket: SocketUsage, typeface: Typeface, at now: Timestamp, owner: String? = nil) {
        self.socket = socket
        self.typeface = typeface
        self.now = now
        self.owner = owner
    }

    /// Shows which side called the other.
    private var arrow: String {
        switch self.socket.role {
        case .client: self.typeface.outgoing
        case .server: self.typeface.incoming
        case .listener, .peer: self.typeface.both
        }
    }

    private var hasRemote: Bool { !(self.socket.remote.address.isUnspecified && self.socket.remote.port == 0) }

    /// `10.0.0.5:443 ← 10.0.0.9:51234`.
    var endpoints: String {
        if let owner { return "\(owner) :\(self.socket.local.port) \(self.arrow) :\(self.socket.remote.port)" }
        return self.hasRemote ? "\(self.socket.local) \(self.arrow) \(self.socket.remote)" : "\(self.socket.local)"
    }

    /// `:443 ← 10.0.0.9:51234`. Leaves out the local address, which matters least.
    private var shortEndpoints: String {
        guard self.hasRemote, self.owner == nil else { return self.endpoints }
        return ":\(self.socket.local.port) \(self.arrow) \(self.socket.remote)"
    }

    /// At most six letters.
    private var shortState: String {
        switch self.socket.state {
        case .established: "ESTAB"
        case .synSent: "SYN-S"
        case .synReceived: "SYN-R"
        case .finWait1: "FIN-1"
        case .finWait2: "FIN-2"
        case .timeWait: "T-WAIT"
        case .closed: "CLOSED"
        case .closeWait: "C-WAIT"
        case .lastAck: "L-ACK"
        case .listen: "LISTEN"
        case .closing: "CLOSNG"
        case .unconnected: "UNCONN"
        }
    }

    /// `1.20 ms 3r`: the round-trip time and the number of segments sent again.
    ///
    /// Where both do not fit into `width` cells, the segments sent again stay: they are more important. Empty for a
    /// socket that has neither.
    func timing(width: Int) -> String {
        let time = self.socket.smoothedRoundTripMicroseconds.flatMap { $0 > 0 ? $0 : nil }
        let again = self.socket.retransmittedSegments.flatMap { $0 > 0 ? $0 : nil }
        let candidates: [String] =
            switch (time, again) {
            case (nil, nil): []
            case (let time?, nil):
                [TimeText.roundTrip(microseconds: time), TimeText.shortRoundTrip(microseconds: time)]
            case (nil, let again?): ["\(again)r"]
            case (let time?, let again?):
                [
                    "\(TimeText.roundTrip(microseconds: time)) \(again)r",
                    "\(TimeText.shortRoundTrip(microseconds: time)) \(again)r",
                    "\(again)r",
                ]
            }
        return candidates.first { $0.utf8.count <= width } ?? candidates.last ?? ""
    }

    var age: String? {
        self.socket.openedAt.map { TimeText.duration(seconds: seconds(from: $0, to: self.socket.closedAt ?? self.now)) }
    }

    /// Fills `line` up to `end` with the protocol, both ends and the state, and with the age where there is room.
    func add(to line: inout Line, until end: Int, withTiming: Bool) {
        let role: Style.Role = self.socket.closedAt == nil ? .plain : .dim
        let width = end - line.columns
        let proto = self.socket.transport.rawValue
        line.add(self.typeface.fitted(proto, to: min(6, max(3, proto.utf8.count))) + " ", .label)
        let isWide = width >= 66
        let state = isWide ? self.socket.state.shortName : self.shortState
        let stateWidth = isWide ? 11 : 6
        let ageWidth = isWide ? 8 : 0
        let timing = withTiming && width >= 60 ? 10 : 0
        let room = end - line.columns - stateWidth - 1 - ageWidth - timing
        if room >= 12 {
            let endpoints = self.typeface.columns(of: self.endpoints) <= room ? self.endpoints : self.shortEndpoints
            line.add(endpoints, role, width: room)
            line.add(" ")
            line.add(state, self.socket.state == .established ? .label : .dim, width: stateWidth)
            if ageWidth > 0 { line.add(self.age ?? "older", .dim, width: ageWidth, .right) }
            if timing > 0 { line.add(self.timing(width: timing - 1), .label, width: timing, .right) }
        } else {
            line.add(self.shortEndpoints, role, width: max(0, end - line.columns))
        }
        line.pad(to: end)
    }
}
