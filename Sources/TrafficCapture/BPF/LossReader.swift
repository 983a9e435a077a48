import CTrafficABI
import TrafficModel

/// Reads the counters of what the programs could not report as usual (`struct traffic_loss`).
struct LossReader {
    private let map: BPFMap
    /// As of the last reading.
    private(set) var loss = CaptureLoss()
    /// Sockets that programs were just closing at the last reading.
    private(set) var closing: UInt64 = 0
    private var endsLost: UInt64 = 0
    private var executionsMissed: UInt64 = 0

    struct News {
        /// Sockets closed whose serials found no room in `unrecorded_ends`.
        var hasLostEnds: Bool
        /// Processes executed programs whose names found no room.
        var hasMissedExecutions: Bool
    }

    init(map: BPFMap) {
        self.map = map
    }

    /// - Parameter own: What the daemon itself counts.
    mutating func read(_ own: CaptureLoss) throws(CaptureError) -> News {
        var loss = own
        var endsLost: UInt64 = 0
        var (begun, ended): (UInt64, UInt64) = (0, 0)
        var executionsMissed: UInt64 = 0
        for cpu in try self.counters() {
            executionsMissed +|= cpu.executions_missed
            loss.missedRuns +|= cpu.returns_missed
            loss.ringFull +|= cpu.closed_deferred
            loss.socketsFolded +|= cpu.closed_folded
            loss.callsFolded +|= cpu.calls_folded
            loss.mapFull +|= cpu.sockets_lost +| cpu.interfaces_lost
            endsLost &+= cpu.unrecorded_ends_lost
            begun &+= cpu.closed_sockets
            ended &+= cpu.closed_submitted &+ cpu.closed_deferred &+ cpu.closed_folded &+ cpu.closed_empty
        }
        let news = News(
            hasLostEnds: endsLost > self.endsLost,
            hasMissedExecutions: executionsMissed != self.executionsMissed
        )
        (self.endsLost, self.executionsMissed) = (endsLost, executionsMissed)
        (self.loss, self.closing) = (loss, begun &- ended)
        return news
    }

    /// How many sockets have ended so far.
    func endedSockets() throws(CaptureError) -> UInt64 {
        try self.counters().reduce(0) { $0 &+ $1.closed_sockets }
    }

    private func counters() throws(CaptureError) -> [traffic_loss] { try self.map.perCPUValues(as: traffic_loss.self) }
}
