import TrafficEvents
import TrafficModel

/// Finds the end of AF_PACKET sockets where no program sees that end. Each sweep reports all AF_PACKET sockets, so a
/// closed socket is missing in the sweeps.
struct FrameSockets {
    /// By serial.
    private var open: Set<UInt64> = []
    private var absences = Absences()
    private var swept: Set<UInt64> = []
    /// Sockets from before the sweep. A socket that was made since then may be missing in the sweep.
    private var expected: Set<UInt64> = []

    mutating func observe(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        if socket.closedBoottimeNanoseconds == nil {
            self.open.insert(socket.serial)
        } else {
            self.open.remove(socket.serial)
        }
    }

    mutating func beginSweep() {
        self.expected = self.open
        self.swept = []
    }

    mutating func sweep(_ socket: SocketObservation) {
        guard socket.transport == .packet else { return }
        self.swept.insert(socket.serial)
    }

    /// - Returns: The sockets that have closed, by serial.
    mutating func endSweep() -> [UInt64] {
        self.absences.note(self.expected.subtracting(self.swept)).filter { self.open.remove($0) != nil }
    }
}
