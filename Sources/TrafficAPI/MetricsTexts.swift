import Glibc
import NIOCore
import Synchronization
import TrafficMetrics
import TrafficModel

/// What scrapers get of a reading. All who get the same have the same bytes, however many they are and however slowly they
/// read.
final class MetricsTexts: Sendable {
    private struct Kind: Hashable {
        var format: MetricsFormat
        var hasCreated: Bool
    }

    private struct State {
        var cost: MeasuredCost?
        /// Of the reading that was taken then.
        var takenAt: Timestamp?
        var whole: [Kind: ByteBuffer] = [:]
    }

    private let state = Mutex(State())

    /// The cost was measured. It is in the texts until the next measurement.
    func keep(_ cost: CaptureCost) {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let now = Timestamp(nanosecondsSinceEpoch: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        self.state.withLock { state in
            state.cost = MeasuredCost(cost, at: now)
            state.whole = [:]
        }
    }

    func text(
        of reading: MetricsReading,
        as format: MetricsFormat,
        hasCreated: Bool,
        for viewer: Viewer
    ) -> ByteBuffer {
        if case .user = viewer {
            // Such a user may not ask for the cost either.
            let document = MetricsDocument(reading.visible(to: viewer), process: OwnProcess.now())
            return ByteBuffer(bytes: document.encoded(as: format, hasCreated: hasCreated))
        }
        // In the lock, so that the text is made once.
        return self.state.withLock { state in
            if state.takenAt != reading.takenAt { (state.takenAt, state.whole) = (reading.takenAt, [:]) }
            let kind = Kind(format: format, hasCreated: hasCreated)
            if let text = state.whole[kind] { return text }
            let document = MetricsDocument(reading.visible(to: viewer), cost: state.cost, process: OwnProcess.now())
            let text = ByteBuffer(bytes: document.encoded(as: format, hasCreated: hasCreated))
            state.whole[kind] = text
            return text
        }
    }
}
