import Logging
import TrafficDocuments
import TrafficModel

/// Decides when a receiver gets a line in the log: when it begins to answer in another way, or for another reason. Ten
/// such lines may come at once, and then one a minute. So a receiver that is away for days, or that changes each time,
/// does not fill the log.
struct PushLog {
    private static let mostAtOnce = 10.0

    struct Line: Equatable {
        var level: Logger.Level
        var text: String
    }

    private enum State: Equatable {
        case takes
        case leavesOut(String)
        case remarks(String)
        case refuses(String)
        case fails(String)
    }

    private let name: String
    /// What the last line said.
    private var said = State.takes
    /// Lines that may come now. Each minute adds one.
    private var room = PushLog.mostAtOnce
    private var roomAt: ContinuousClock.Instant?

    init(_ destination: PushDestination) { self.name = destination.name }

    mutating func line(_ answer: PushAnswer, now: ContinuousClock.Instant) -> Line? {
        let (state, line) = self.described(answer)
        guard state != self.said else { return nil }
        if let roomAt { self.room = min(Self.mostAtOnce, self.room + (now - roomAt) / .seconds(60)) }
        self.roomAt = now
        // If it stays like this, the line comes with a later answer.
        guard self.room >= 1 else { return nil }
        self.room -= 1
        self.said = state
        return line
    }

    private func described(_ answer: PushAnswer) -> (State, Line) {
        switch answer {
        case .delivered(0, ""):
            (.takes, Line(level: .notice, text: "\(self.name) \(self.relief)"))
        case .delivered(0, let message):
            (.remarks(message), Line(level: .notice, text: "\(self.name) takes metrics, and remarks: \(message)"))
        case .delivered(let rejected, let message):
            (
                .leavesOut(message),
                Line(level: .warning, text: "\(self.name) \(PushAnswer.leftOut(rejected, message))")
            )
        case .refused(let reason):
            (.refuses(reason), Line(level: .warning, text: "\(self.name) refuses metrics: \(reason)"))
        case .failed(let reason, _):
            (
                .fails(reason),
                Line(level: .warning, text: "can't send metrics to \(self.name), and goes on trying: \(reason)")
            )
        }
    }

    /// What ends with an answer to which there is nothing to say.
    private var relief: String {
        switch self.said {
        case .fails, .refuses, .takes: "takes metrics again"
        case .leavesOut: "takes all points again"
        case .remarks: "has no more remarks"
        }
    }
}
