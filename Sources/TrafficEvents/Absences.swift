import TrafficModel

/// How the daemon notices that a socket has closed if nothing in the kernel says so: the socket is missing in several
/// complete lists in a row. One list is not enough (``CaptureEvent/censusesUntilClosed``).
package struct Absences: Sendable, Codable {
    /// By the socket's serial: in how many lists in a row the socket was missing.
    private var counts: [UInt64: Int] = [:]

    package init() {}

    /// - Parameter missing: The sockets that the newest list lacks, by serial. A socket that is not among them is there
    ///   again, and its count begins anew.
    /// - Returns: The sockets that count as closed. The next call counts them from the beginning.
    package mutating func note(_ missing: some Sequence<UInt64>) -> [UInt64] {
        let before = self.counts
        self.counts = [:]
        return missing.filter { serial in
            let count = before[serial, default: 0] + 1
            if count < CaptureEvent.censusesUntilClosed { self.counts[serial] = count }
            return count >= CaptureEvent.censusesUntilClosed
        }
    }
}
