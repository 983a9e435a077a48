import CommandOptions
import NIOCore
import Synchronization
import TrafficDocuments
import TrafficModel
import TrafficView

/// Reads the daemon's snapshots in the background and keeps only the newest. After a failure the feed connects again,
/// with growing pauses, until it is stopped.
final class SnapshotFeed: TopFeed {
    private struct State: Sendable {
        var news: TopNews?
        var demand = Demand.live(.none)
        /// `nil` before start and after stop.
        var reader: Task<Void, Never>?
        /// The feed writes a byte here when there is news; -1 after stop.
        var wakeDescriptor: Int32
    }

    private let client: ControlClient
    private let interval: TimeSpan
    private let state: Mutex<State>

    /// - Parameter wakeDescriptor: Gets a byte when there is news. Must not block.
    init(client: ControlClient, interval: TimeSpan, wakeDescriptor: Int32) {
        self.client = client
        self.interval = interval
        self.state = Mutex(State(wakeDescriptor: wakeDescriptor))
    }

    func takeNews() -> TopNews? {
        self.state.withLock { state in
            defer { state.news = nil }
            return state.news
        }
    }

    func start(_ demand: Demand) {
        self.state.withLock { state in
            if state.reader != nil, state.demand == demand { return }
            state.reader?.cancel()
            state.demand = demand
            state.reader = Task {
                switch demand {
                case .live(let sockets): await self.read(sockets)
                case .minute(let start): await self.read(minute: start)
                // No daemon has one.
                case .recording: break
                }
            }
        }
    }

    func stop() {
        self.state.withLock { state in
            state.reader?.cancel()
            state.reader = nil
            state.wakeDescriptor = -1
        }
    }

    private static let shortestPause = Duration.milliseconds(250)
    private static let longestPause = Duration.seconds(5)

    /// Reads one minute of history.
    private func read(minute start: Timestamp) async {
        let end = Timestamp(nanosecondsSinceEpoch: start.nanosecondsSinceEpoch +| 60_000_000_000)
        let query = [
            ("since", start.description), ("until", end.description), ("bucket", "minute"),
            ("by", "process,user,unit,container"),
        ]
        var pause = Self.shortestPause
        while !Task.isCancelled {
            do throws(Failure) {
                let report = try await self.client.get("/v1/history", query).decoded(as: HistoryReport.self)
                let minute = PastMinute(report, start: start) { LocalTime.withMinutes($0) }
                return self.publish(.minute(minute), for: .minute(start))
            } catch {
                self.publish(.lost(error), for: .minute(start))
            }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func read(_ sockets: SocketDemand) async {
        let demand = Demand.live(sockets)
        var query = [("interval", "\(self.interval.seconds)"), ("view", sockets == .none ? "processes" : "snapshot")]
        if case .of(let pids) = sockets {
            query.append(("sockets_of", pids.sorted().map(String.init).joined(separator: ",")))
        }
        var pause = Self.shortestPause
        while !Task.isCancelled {
            var failure = Failure.disconnected(reason: "trafficd closed the connection")
            do {
                var lines = LineSplitter()
                try await self.client.stream("/v1/stream", query) { part in
                    lines.append(part)
                    // Of several snapshots that came at once, only the last is used.
                    var newest: ByteBuffer?
                    while let line = lines.next() { newest = line }
                    guard let newest else { return }
                    self.publish(.snapshot(try Snapshot(json: newest)), for: demand)
                    pause = Self.shortestPause
                }
            } catch let error as Failure {
                failure = error
            } catch {
                failure = .disconnected(reason: "\(error)")
            }
            self.publish(.lost(failure), for: demand)
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func publish(_ news: TopNews, for demand: Demand) {
        self.state.withLock { state in
            // A reader that was replaced may still publish once.
            guard !Task.isCancelled, state.demand == demand, state.wakeDescriptor >= 0 else { return }
            state.news = news
            wake(state.wakeDescriptor)
        }
    }
}
