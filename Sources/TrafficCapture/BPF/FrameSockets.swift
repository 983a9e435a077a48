import TrafficModel

/// Finds the end of AF_PACKET sockets where no program sees that end. Each sweep reports all AF_PACKET sockets, so a
/// closed socket is missing in the sweeps.
struct FrameSockets {
    /// By serial of the socket: whether the socket has further owners.
    private var open: [UInt64: Bool] = [:]
    /// By serial: in how many sweeps in a row the socket was missing, without the sweep in progress.
    private var absences: [UInt64: Int] = [:]
    private var swept: Set<UInt64> = []
    /// Sockets from before the sweep. A socket that was made since then may be missing in the sweep.
    private var expected: Set<UInt64> = []

    mutating func observe(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        self.open[socket.serial] = socket.closedBoottimeNanoseconds == nil ? socket.isShared : nil
    }

    mutating func beginSweep() {
        self.expected = Set(self.open.keys)
        self.swept = []
    }

    mutating func sweep(_ socket: SocketObservation) {
        self.swept.insert(socket.serial)
    }

    /// - Returns: The sockets that are gone, by serial.
    mutating func endSweep() -> [(serial: UInt64, isShared: Bool)] {
        let missing = self.expected.subtracting(self.swept)
        self.absences = self.absences.filter { missing.contains($0.key) }
        return missing.compactMap { serial in
            self.absences[serial, default: 0] += 1
            guard self.absences[serial] == CaptureEvent.censusesUntilGone,
                let isShared = self.open.removeValue(forKey: serial)
            else { return nil }
            return (serial, isShared)
        }
    }
}
