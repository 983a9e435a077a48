import HTTPTypes
import TrafficDocuments
import TrafficFeed
import TrafficModel
import TrafficQuery

extension QueryParameters {
    /// - Throws: ``Problem`` for parameters that make no sense, or for bytes that the viewer may not see.
    func historyQuestion(from viewer: Viewer) throws(Problem) -> HistoryQuestion {
        guard viewer != .network else { throw .historyWithheld }
        var question = HistoryQuestion(since: try self.time("since") ?? Timestamp(nanosecondsSinceEpoch: 0))
        question.until = try self.time("until")
        if let until = question.until, until <= question.since {
            throw .badParameter("until", "not later than since")
        }
        if self.value("bucket") != nil { question.bucket = try self.word("bucket", fallback: HistoryLevel.hour) }
        do throws(HistoryWordError) {
            if let text = self.value("by") { question.by = try [HistoryDimension](words: text) }
        } catch {
            throw .badParameter("by", error.description)
        }
        do throws(FilterError) {
            question.filter = try HistoryFilter(self.value("filter") ?? "")
        } catch {
            throw .badParameter("filter", error.description)
        }
        do throws(HistoryWordError) {
            try question.check()
        } catch {
            throw .badParameter(question.bucket == .fiveMinutes ? "bucket" : "filter", error.description)
        }
        if let text = self.value("limit") {
            guard let top = Int(text), (1...HistoryQuestion.mostNames).contains(top) else {
                throw .badParameter("limit", "'\(text)' is not a number from 1 to \(HistoryQuestion.mostNames)")
            }
            question.top = top
        }
        if case .user(let uid) = viewer {
            // The sums by scope, class and interface, and those of 5 minutes, are of all users.
            if question.by.contains(where: { [.scope, .class, .interface].contains($0) })
                || question.bucket == .fiveMinutes
            {
                throw .sumsWithheld
            }
            // Of a user's own bytes, the total is the user's row.
            if question.by == [.total] { question.by = [.user] }
            question.uid = uid
        }
        return question
    }

    /// - Throws: ``Problem`` for parameters that make no sense, or if the viewer may not see all bytes.
    func monthQuestion(from viewer: Viewer) throws(Problem) -> MonthQuestion {
        var question = MonthQuestion()
        if let text = self.value("month") {
            guard let month = CalendarMonth(text) else {
                throw .badParameter("month", "'\(text)' is not a month such as 2026-11")
            }
            question.month = month
        }
        if let text = self.value("exceeding") {
            guard let rate = UInt64(text), rate > 0 else {
                throw .badParameter("exceeding", "'\(text)' is not a number of bits per second")
            }
            question.exceeding = rate
        }
        if self.value("scope") != nil { question.part = .scope(try self.word("scope", fallback: .internet)) }
        if let name = self.value("class") {
            guard question.part == .total else { throw .badParameter("class", "can't be combined with scope") }
            question.part = .class(name)
        }
        switch viewer {
        case .administrator: return question
        case .user: throw .monthWithheld
        case .network: throw .historyWithheld
        }
    }

    /// RFC 3339, such as `2026-11-01T00:00:00Z`.
    private func time(_ name: String) throws(Problem) -> Timestamp? {
        guard let text = self.value(name) else { return nil }
        guard let time = Timestamp(rfc3339: text) else {
            throw .badParameter(name, "'\(text)' is not a time such as 2026-11-01T00:00:00Z")
        }
        return time
    }
}

extension Problem {
    init(_ refusal: HistoryRefusal) {
        switch refusal {
        case .tooLong: self.init(status: .badRequest, detail: refusal.description)
        case .notKept: self.init(status: .notFound, detail: refusal.description)
        case .unavailable, .ended: self.init(status: .serviceUnavailable, detail: refusal.description)
        }
    }

    static let noHistory = Problem(
        status: .notFound,
        detail: "This trafficd keeps no history: start it with --state-directory DIR."
    )

    static let historyWithheld = Problem(
        status: .forbidden,
        detail: "History is for callers of control.sock, and for clients with the administrators' token."
    )

    static let monthWithheld = Problem(
        status: .forbidden,
        detail:
            "The report of a month is of all users: it is for root and the socket's group, on control.sock, and for clients with the administrators' token."
    )

    static let sumsWithheld = Problem(
        status: .forbidden,
        detail: "Sums by scope, class, interface and 5 minutes are of all users: root and the socket's group see them."
    )
}
