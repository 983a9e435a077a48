public import TrafficModel

/// Where readers ask about the past. In the daemon this is its history.
public protocol HistorySource: Sendable {
    /// - Throws: ``HistoryRefusal``.
    func answer(_ question: HistoryQuestion) async throws -> HistoryReport
}

/// Why a question has no answer.
public enum HistoryRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// The answer would be too long. The text says what to do.
    case tooLong(String)
    case unavailable(String)

    public var description: String {
        switch self {
        case .tooLong(let advice): advice
        case .unavailable(let reason): "History can't be read now: \(reason)."
        }
    }
}
