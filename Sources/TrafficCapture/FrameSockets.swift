import TrafficModel

/// AF_PACKET sockets, whose end most rungs don't see: such a socket is missing in the next sweep, in which all of them are reported.
struct FrameSockets {
    private var latest: [UInt64: SocketObservation] = [:]
    /// Those from before the sweep; one that was made since may not be in it.
    private var expected: Set<UInt64> = []

    mutating func observe(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        self.latest[socket.serial] = socket.closedBoottimeNanoseconds == nil ? socket : nil
    }

    mutating func beginSweep() {
        self.expected = Set(self.latest.keys)
    }

    mutating func sweep(_ socket: SocketObservation) {
        self.expected.remove(socket.serial)
    }

    /// - Returns: The last words of those that are gone. The ring may have had a later one than the sweep before.
    mutating func endSweep() -> [SocketObservation] {
        self.expected.compactMap { serial in
            guard var closed = self.latest.removeValue(forKey: serial) else { return nil }
            closed.state = .closed
            closed.closedBoottimeNanoseconds = MonotonicClock.boottimeNanoseconds()
            return closed
        }
    }
}
