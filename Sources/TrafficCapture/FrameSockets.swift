import TrafficModel

/// AF_PACKET sockets where no program sees their end: such a socket is missing in the sweeps, in each of which all of them are reported.
struct FrameSockets {
    /// By serial: whether it has further owners.
    private var open: [UInt64: Bool] = [:]
    /// In how many sweeps in a row each was missing; those of the sweep that goes on are not in it.
    private var absences: [UInt64: Int] = [:]
    private var swept: Set<UInt64> = []
    /// Those from before the sweep; one that was made since may not be in it.
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

    /// - Returns: Those that are gone, by serial.
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
