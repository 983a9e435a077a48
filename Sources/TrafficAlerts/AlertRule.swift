public import TrafficDocuments
import TrafficModel
public import TrafficQuery

/// When to raise an alert, and about whom.
public struct AlertRule: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        /// A process group moves more payload than this, in both directions, in each fifth of the time.
        case rate(bytesPerSecond: Double, seconds: Double)
        /// All processes of the rule together have moved these bytes, or a step of them, in a day or month. The steps are
        /// percents of the bytes, in rising order.
        case bytes(UInt64, per: Period, steps: [Int] = AlertRule.usualSteps)
        /// An endpoint has more requests than one for each of these times.
        case requestsEvery(seconds: Double)
        /// An endpoint has more requests from minute to minute.
        case requestsGrowing
        /// An endpoint has had more than this multiple of requests in the last hour as in any hour of the past that history
        /// knows. At least 2: an hour that begins at any minute is in two hours of the clock, and may have twice as many
        /// requests as either.
        case requestsOverPast(multiple: Double)
        /// So many of an endpoint's exchanges that ended in this time failed: 0 to 1.
        case failures(share: Double, seconds: Double)
        /// So many of them had the same response as the one before: 0 to 1.
        case repeated(share: Double, seconds: Double)
        /// A process group reaches a destination for the first time, once its own destinations were learned for so long.
        case newDestination(learningSeconds: Double)
    }

    /// One of the host's local time.
    public enum Period: String, Sendable, Hashable, CaseIterable {
        case day, month
    }

    public var name: String
    public var filter: AlertFilter
    public var kind: Kind

    public init(name: String, filter: AlertFilter, kind: Kind) {
        (self.name, self.filter, self.kind) = (name, filter, kind)
    }

    /// As an alert says it. `nil`: about everything.
    var match: String? { self.filter.text.isEmpty ? nil : self.filter.text }

    /// More rules would make each sample long.
    public static let most = 32
    /// The times of ``Kind/rate(bytesPerSecond:seconds:)``, ``Kind/failures(share:seconds:)`` and
    /// ``Kind/repeated(share:seconds:)``.
    public static let times = 5.0...86_400
    /// The times of ``Kind/requestsEvery(seconds:)``.
    public static let periods = 1.0...3_600
    /// The multiples of ``Kind/requestsOverPast(multiple:)``.
    public static let multiples = 2.0...1_000
    /// The steps of ``Kind/bytes(_:per:steps:)``: percents, how many there may be, and the usual ones.
    public static let stepPercents = 1...1_000
    public static let mostSteps = 10
    public static let usualSteps = [100]
    /// The times of ``Kind/newDestination(learningSeconds:)``, and the usual one.
    public static let learningTimes = 3_600.0...5_356_800
    public static let learningTime = 604_800.0
}

extension AlertRule.Kind {
    public var reported: AlertKind {
        switch self {
        case .rate: .rate
        case .bytes: .bytes
        case .requestsEvery: .requestsEvery
        case .requestsGrowing: .requestsGrowing
        case .requestsOverPast: .requestsOverPast
        case .failures: .failures
        case .repeated: .repeated
        case .newDestination: .newDestination
        }
    }
}

extension AlertKind {
    /// Whose terms a filter may have.
    public var reader: FilterReader {
        switch self {
        case .rate, .bytes: .byteAlerts
        case .newDestination: .destinationAlerts
        case .requestsEvery, .requestsGrowing, .requestsOverPast, .failures, .repeated: .requestAlerts
        }
    }

    /// Whether history has a part of what is judged.
    public var needsHistory: Bool {
        switch self {
        case .bytes, .requestsOverPast, .newDestination: true
        case .rate, .requestsEvery, .requestsGrowing, .failures, .repeated: false
        }
    }
}

extension AlertRule: CustomStringConvertible {
    /// Everything in it, in a line.
    public var description: String {
        let condition =
            switch self.kind {
            case .rate(let rate, let seconds): "rate \(rate) for \(seconds)s"
            case .bytes(let bytes, let period, let steps):
                "bytes \(bytes) per \(period.rawValue) at \(steps.map { "\($0)%" }.joined(separator: ", "))"
            case .requestsEvery(let seconds): "requests_every \(seconds)s"
            case .requestsGrowing: "requests_growing"
            case .requestsOverPast(let multiple): "requests_over_past \(multiple)x"
            case .failures(let share, let seconds): "failures \(share) for \(seconds)s"
            case .repeated(let share, let seconds): "repeated \(share) for \(seconds)s"
            case .newDestination(let seconds): "new_destination learn \(seconds)s"
            }
        return "\(self.name): \(condition)" + (self.match.map { " of '\($0)'" } ?? "")
    }
}
