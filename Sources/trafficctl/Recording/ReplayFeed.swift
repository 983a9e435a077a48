import Synchronization
import TrafficModel
import TrafficRecording
import TrafficView

/// Plays a recording for `top`, in the background.
final class ReplayFeed: TopFeed {
    private struct State: Sendable {
        var news: TopNews?
        var request: Replay.Request?
        var player: Task<Void, Never>?
        /// The feed writes a byte here when there is news; -1 after stop.
        var wakeDescriptor: Int32
    }

    private let recording: Recording
    /// When each snapshot comes: ``Replay/offsets``.
    private let offsets: [Double]
    private let state: Mutex<State>

    /// - Parameter wakeDescriptor: Gets a byte when there is news. Must not block.
    init(_ recording: Recording, offsets: [Double], wakeDescriptor: Int32) {
        (self.recording, self.offsets) = (recording, offsets)
        self.state = Mutex(State(wakeDescriptor: wakeDescriptor))
    }

    func takeNews() -> TopNews? {
        self.state.withLock { state in
            defer { state.news = nil }
            return state.news
        }
    }

    func start(_ demand: Demand) {
        guard case .recording(let request) = demand else { return }
        self.state.withLock { state in
            if state.request == request { return }
            state.player?.cancel()
            state.request = request
            state.player = Task { await self.play(request) }
        }
    }

    func stop() {
        self.state.withLock { state in
            state.player?.cancel()
            state.player = nil
            state.wakeDescriptor = -1
        }
    }

    private func play(_ request: Replay.Request) async {
        let clock = ContinuousClock()
        let start = clock.now
        var index = request.index
        while true {
            do throws(RecordingError) {
                let snapshot = try self.recording.snapshot(index)
                let time = LocalTime.withSeconds(self.recording.time(of: index))
                self.publish(.recorded(snapshot, index: index, time: time, for: request), request)
            } catch {
                self.publish(.lost(.recording(error)), request)
            }
            guard let speed = request.speed, index + 1 < self.offsets.count else { return }
            /// How long after the start a snapshot comes.
            func due(_ index: Int) -> Double { (self.offsets[index] - self.offsets[request.index]) / speed }
            index += 1
            let passed = (clock.now - start) / .seconds(1)
            // Those that are late are left out.
            while index + 1 < self.offsets.count, due(index + 1) <= passed { index += 1 }
            do { try await Task.sleep(for: .seconds(max(0, due(index) - passed))) } catch { return }
        }
    }

    private func publish(_ news: TopNews, _ request: Replay.Request) {
        self.state.withLock { state in
            // A player that was replaced may still publish once.
            guard state.request == request, state.wakeDescriptor >= 0 else { return }
            state.news = news
            wake(state.wakeDescriptor)
        }
    }
}
