import TrafficModel

/// Finds the end of AF_PACKET sockets where no program sees that end. Each sweep reports all AF_PACKET sockets, so a
/// closed socket is missing in the sweeps.
struct FrameSockets {
    /// By serial of the socket: whether the socket has further owners.
    private var open: [UInt64: Bool] = [:]
    private var absences = Absences()
    private var swept: Set<UInt64> = []
    /// Sockets from before the sweep. A socket that was made since then may be missing in the sweep.
    private var expected: Set<UInt64> = []

    mutating func observe(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        // A record that was copied before the socket was shared may come after the record that says so.
        let isShared = socket.isShared || self.open[socket.serial] == true
        self.open[socket.serial] = socket.closedBoottimeNanoseconds == nil ? isShared : nil
    }

    mutating func beginSweep() {
        self.expected = Set(self.open.keys)
        self.swept = []
    }

    mutating func sweep(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        self.swept.insert(socket.serial)
    }

    /// - Returns: The sockets that have closed, by serial.
    mutating func endSweep() -> [(serial: UInt64, isShared: Bool)] {
        self.absences.note(self.expected.subtracting(self.swept)).compactMap { serial in
            self.open.removeValue(forKey: serial).map { (serial, $0) }
        }
    }
}
