import TrafficModel

/// The part of a socket that a claim is checked against.
struct ClaimedSocket: Codable {
    var serial: UInt64
    var payload: PayloadBytes
    var wireBytes: UInt64
    var preexisting: Bool
    var connect: ConnectTimes?
    /// It is among ``SocketTable/late``.
    var isLate: Bool

    init(_ account: SocketAccount, isLate: Bool = false) {
        let bytes = account.bytes
        self.serial = account.observation.serial
        self.payload = bytes.payload
        self.wireBytes = (bytes.wireSent ?? 0) &+ (bytes.wireReceived ?? 0)
        self.preexisting = account.observation.preexisting
        self.connect = account.observation.connect
        self.isLate = isLate
    }
}
