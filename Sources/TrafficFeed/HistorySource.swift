public import TrafficDocuments
import TrafficModel
public import TrafficQuery

/// Where readers ask about the past. In the daemon this is its history.
public protocol HistorySource: Sendable {
    /// - Throws: ``HistoryRefusal``.
    func answer(_ question: HistoryQuestion) async throws -> HistoryReport

    /// - Throws: ``HistoryRefusal``.
    func answer(_ question: MonthQuestion) async throws -> MonthReport
}

/// Why a question has no answer.
public enum HistoryRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// The answer would be too long. The text says what to do.
    case tooLong(String)
    /// It is about something of which history has nothing. The text says what.
    case notKept(String)
    case unavailable(String)
    /// The daemon stops.
    case ended

    public var description: String {
        switch self {
        case .tooLong(let text), .notKept(let text): text
        case .unavailable(let reason): "History can't be read now: \(reason)."
        case .ended: "History can't be read now: trafficd stops."
        }
    }
}
