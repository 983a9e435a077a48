import TrafficModel

/// How a socket reads in one line.
struct SocketText {
    let socket: SocketUsage
    let typeface: Typeface
    let now: Timestamp

    init(_ socket: SocketUsage, typeface: Typeface, at now: Timestamp) {
        self.socket = socket
        self.typeface = typeface
        self.now = now
    }

    /// Who called whom.
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
        self.hasRemote ? "\(self.socket.local) \(self.arrow) \(self.socket.remote)" : "\(self.socket.local)"
    }

    /// `:443 ← 10.0.0.9:51234`: the own address is the one that is missed least.
    private var shortEndpoints: String {
        guard self.hasRemote else { return self.endpoints }
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

    /// `1.20 ms 3r`: round-trip time and segments sent again. Empty for what has neither.
    var timing: String {
        var text = ""
        if let microseconds = self.socket.smoothedRoundTripMicroseconds, microseconds > 0 {
            text = TimeText.roundTrip(microseconds: microseconds)
        }
        if let segments = self.socket.retransmittedSegments, segments > 0 {
            text += (text.isEmpty ? "" : " ") + "\(segments)r"
        }
        return text
    }

    var age: String? {
        self.socket.openedAt.map { TimeText.duration(seconds: seconds(from: $0, to: self.socket.closedAt ?? self.now)) }
    }

    /// Fills `line` up to `end`: protocol, both ends, state, and age where there is room.
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
            if timing > 0 { line.add(self.timing, .label, width: timing, .right) }
        } else {
            line.add(self.shortEndpoints, role, width: max(0, end - line.columns))
        }
        line.pad(to: end)
    }
}
