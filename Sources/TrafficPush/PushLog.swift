import Logging
import TrafficModel

/// Decides which answers of a receiver get a line in the log: those that change how it goes, and one a minute at most. A
/// receiver may be away for days, and one that answers by turns must not fill the log.
struct PushLog {
    static let rest = Duration.seconds(60)

    struct Line: Equatable {
        var level: Logger.Level
        var text: String
    }

    private enum State {
        case takes, leavesOut, remarks, refuses, fails
    }

    private let name: String
    /// What the log has last.
    private var said = State.takes
    private var saidAt: ContinuousClock.Instant?

    init(_ destination: PushDestination) { self.name = destination.name }

    mutating func line(_ answer: PushAnswer, now: ContinuousClock.Instant) -> Line? {
        let (state, line) = self.described(answer)
        guard state != self.said else { return nil }
        // If it stays like this, the line comes with a later answer.
        if let saidAt, now < saidAt + Self.rest { return nil }
        (self.said, self.saidAt) = (state, now)
        return line
    }

    private func described(_ answer: PushAnswer) -> (State, Line) {
        switch answer {
        case .delivered(0, ""):
            (.takes, Line(level: .notice, text: "\(self.name) takes metrics again"))
        case .delivered(0, let message):
            (.remarks, Line(level: .notice, text: "\(self.name) takes metrics, and remarks: \(Self.short(message))"))
        case .delivered(let rejected, let message):
            (
                .leavesOut,
                Line(level: .warning, text: "\(self.name) left out \(rejected) points: \(Self.short(message))")
            )
        case .refused(let reason):
            (.refuses, Line(level: .warning, text: "\(self.name) refuses metrics: \(reason)"))
        case .failed(let reason, _):
            (.fails, Line(level: .warning, text: "can't send metrics to \(self.name), and goes on trying: \(reason)"))
        }
    }

    private static func short(_ message: String) -> String { String(message.prefix(200)).printable }
}
