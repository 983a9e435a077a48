import TrafficModel

/// AF_PACKET sockets where no program sees their end: such a socket is missing in the sweeps, in each of which all of them are reported.
struct FrameSockets {
    /// A walk through the sockets' storage goes on by position, and passes over one when another one goes meanwhile. Not this often in a row.
    private static let sweepsUntilGone = 3

    private var latest: [UInt64: SocketObservation] = [:]
    /// In how many sweeps in a row each was missing; those of the sweep that goes on are not in it.
    private var absences: [UInt64: Int] = [:]
    private var swept: Set<UInt64> = []
    /// Those from before the sweep; one that was made since may not be in it.
    private var expected: Set<UInt64> = []

    mutating func observe(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        self.latest[socket.serial] = socket.closedBoottimeNanoseconds == nil ? socket : nil
    }

    mutating func beginSweep() {
        self.expected = Set(self.latest.keys)
        self.swept = []
    }

    mutating func sweep(_ socket: SocketObservation) {
        self.swept.insert(socket.serial)
    }

    /// - Returns: The last words of those that are gone. The ring may have had a later one than the sweep before.
    mutating func endSweep() -> [SocketObservation] {
        let missing = self.expected.subtracting(self.swept)
        self.absences = self.absences.filter { missing.contains($0.key) }
        return missing.compactMap { serial in
            self.absences[serial, default: 0] += 1
            guard self.absences[serial] == Self.sweepsUntilGone, var closed = self.latest.removeValue(forKey: serial)
            else { return nil }
            closed.state = .closed
            closed.closedBoottimeNanoseconds = MonotonicClock.boottimeNanoseconds()
            return closed
        }
    }
}
