import TrafficAlerts
import TrafficModel
import TrafficQuery

extension AlertRule {
    init(_ kind: Kind, named name: String = "r", of filter: String = "") throws {
        self.init(name: name, filter: try AlertFilter(filter, for: kind.reported.reader), kind: kind)
    }
}

/// Some hours of traffic, in samples of 5 seconds.
struct Simulation {
    static let app = ProcessGroup(name: "app", uid: 1_000)
    static let began = Timestamp(nanosecondsSinceEpoch: 1_800_000_000_000_000_000)

    var book = AlertBook()
    /// Seconds.
    private(set) var now = 0.0
    /// When each alert began and ended.
    private(set) var changes: [(seconds: Double, change: AlertChange)] = []

    /// What history says of an endpoint at this second.
    var past: (ServiceEndpoint, Double) -> EndpointPast? = { _, _ in nil }
    /// How often history was asked.
    private(set) var questions = 0

    init(_ rules: AlertRule...) { _ = self.book.configure(rules) }

    /// - Parameter move: Says what moves in the 5 seconds that begin at this second.
    mutating func run(for seconds: Double, _ move: (Double, inout AlertSample) -> Void = { _, _ in }) {
        let end = self.now + seconds
        while self.now < end {
            let start = self.now
            self.now += 5
            var sample = AlertSample(takenAt: Self.time(self.now), seconds: 5)
            move(start, &sample)
            self.changes += self.book.add(sample) { $0 == 1_000 ? "web" : nil }.map { (self.now, $0) }
            var pasts: [ServiceEndpoint: EndpointPast] = [:]
            for endpoint in self.book.neededPasts {
                self.questions += 1
                pasts[endpoint] = self.past(endpoint, self.now)
            }
            self.changes += self.book.take(pasts, at: Self.time(self.now)).map { (self.now, $0) }
        }
    }

    static func time(_ seconds: Double) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: Self.began.nanosecondsSinceEpoch + Int64(seconds * 1e9))
    }

    /// The seconds at which alerts began and ended: `+60`, `-120`.
    var times: [Double] {
        self.changes.map { if case .began = $0.change { $0.seconds } else { -$0.seconds } }
    }
}

extension AlertSample {
    mutating func move(_ bytes: UInt64, by group: ProcessGroup = Simulation.app) {
        self.groups[group, default: 0] += bytes
    }

    mutating func ask(
        _ requests: UInt64,
        failing: UInt64 = 0,
        repeating: UInt64 = 0,
        route: String = "/line",
        bytes: UInt64 = 1_000,
        by group: ProcessGroup = Simulation.app
    ) {
        guard requests > 0 else { return }
        let name = ServiceEndpoint(process: group, role: .client, host: "api.example", route: route)
        self.endpoints[name] = EndpointCounts(
            requests: requests,
            ended: requests,
            failures: failing,
            repeated: repeating,
            sent: MessageParts(rest: requests * (bytes - bytes / 2)),
            received: MessageParts(body: requests * (bytes / 2))
        )
    }
}

/// Timers of a page: each asks once in its period, from its own start on.
struct Timers {
    var period = 15.0
    var starts: [Double] = []

    /// In the 5 seconds that begin at `second`.
    func requests(at second: Double) -> UInt64 {
        UInt64(
            self.starts.filter { start in
                let first = ((second - start) / self.period).rounded(.up)
                return first >= 0 && start + first * self.period < second + 5
            }.count
        )
    }
}
