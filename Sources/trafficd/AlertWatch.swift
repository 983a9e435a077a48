import Dispatch
import Logging
import Synchronization
import TrafficAlerts
import TrafficCapture
import TrafficDocuments
import TrafficFeed
import TrafficHistory
import TrafficModel

/// Judges what moves by the rules, and says in the log what begins and ends. It has a thread of its own, because the name
/// of a user may have to be asked of a directory service. Whoever counts hands samples over and never waits.
final class AlertWatch: AlertSource {
    /// What waits for the thread. However late the thread is, there is little of it.
    private struct Work {
        var rules: [AlertRule]?
        var sample: AlertSample?
        /// History has got another minute.
        var hasMinute = false
        /// What history says of rules.
        var sums: [(sum: BudgetSum, rule: AlertRule)] = []
        var pasts: [ServiceEndpoint: EndpointPast] = [:]
        /// What history says of contacts.
        var answers: [(answer: ContactAnswer, contact: Contact)] = []
        var isOver = false
    }

    private struct State {
        var work = Work()
        var rules = 0
        var alerts: [Alert] = []
        var journal: AlertJournal
        /// Those who follow.
        var followers: [UInt64: AsyncStream<Void>.Continuation] = [:]
        var lastFollower: UInt64 = 0
        /// Questions to history about bytes are under way.
        var isAsking = false
        /// The same of questions about the past.
        var isAskingForPasts = false
        /// The last of these failed.
        var hasNoPasts = false
        /// The earliest minute that history has got and no rule was judged by: seconds since 1970.
        var unjudged: Int64?
        /// The same, of rules for which history had no answer, by their names.
        var unanswered: [String: Int64] = [:]
        /// A question about contacts is under way.
        var isAskingContacts = false
        /// The last one had no answer.
        var lacksContacts = false
    }

    private let state: Mutex<State>
    private let filled = DispatchSemaphore(value: 0)
    private let host: String
    private let history: History?
    private let names: UserNames
    private let logger: Logger

    /// - Parameters:
    ///   - host: The host's name, for reports.
    ///   - history: Counts the bytes of days and months. `nil`: no history is kept.
    init(host: String, history: History?, names: UserNames, logger: Logger) {
        (self.host, self.history, self.names, self.logger) = (host, history, names, logger)
        let journal = AlertJournal(host: host, origin: .random(in: .min ... .max))
        self.state = Mutex(State(journal: journal))
    }

    // MARK: Callers

    func configure(_ rules: [AlertRule]) {
        self.hand { $0.work.rules = rules }
        self.state.withLock { $0.rules = rules.count }
    }

    func add(_ sample: AlertSample) {
        self.hand { $0.work.sample = $0.work.sample?.joined(with: sample) ?? sample }
    }

    /// Call this when a minute was handed to history.
    ///
    /// - Parameter time: Of the minute: seconds since 1970.
    func minuteEnded(_ time: Int64) {
        self.hand {
            $0.work.hasMinute = true
            $0.unjudged = min($0.unjudged ?? time, time)
        }
    }

    func stop() { self.hand { $0.work.isOver = true } }

    func alerts() -> AlertReport {
        let (rules, alerts) = self.state.withLock { ($0.rules, $0.alerts) }
        return AlertReport(host: self.host, takenAt: .now, rules: rules, alerts: alerts)
    }

    func beginning(after position: AlertPosition?) -> AlertNotice {
        self.state.withLock { $0.journal.beginning(after: position, at: .now) }
    }

    func notices(after number: UInt64) -> [AlertNotice] {
        self.state.withLock(\.journal).notices(after: number)
    }

    func news() -> AsyncStream<Void> {
        let (stream, follower) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = self.state.withLock { state in
            state.lastFollower += 1
            state.followers[state.lastFollower] = follower
            return state.lastFollower
        }
        follower.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.followers.removeValue(forKey: number) }
        }
        follower.yield()
        return stream
    }

    /// How many alerts are in force. `nil` without rules.
    var active: Int? { self.state.withLock { $0.rules == 0 ? nil : $0.alerts.count } }

    private func hand(_ add: (inout State) -> Void) {
        self.state.withLock { add(&$0) }
        self.filled.signal()
    }

    // MARK: The thread

    /// Judges until ``stop()``.
    func run() {
        var (book, log) = (AlertBook(), AlertLog())
        while true {
            self.filled.wait()
            let work = self.state.withLock { state in
                defer { state.work = Work() }
                return state.work
            }
            guard !work.isOver else { return }
            var changes = work.rules.map { book.configure(self.judgeable($0)) } ?? []
            if let sample = work.sample { changes += book.add(sample) { self.names[$0] } }
            for (sum, rule) in work.sums { changes += book.take(sum, of: rule) }
            changes += book.take(work.pasts, at: .now)
            if work.sample != nil { self.askForPasts(of: book.neededPasts) }
            for (answer, contact) in work.answers { changes += book.take(answer, of: contact) { self.names[$0] } }
            if work.rules != nil || work.hasMinute { self.ask(book.rules) }
            // Not after a question that failed: the next sample tries again.
            if work.sample != nil || !work.answers.isEmpty { self.ask(about: book.question) }
            changes = changes.map { $0.naming { self.names[$0] } }
            let alerts = book.alerts.map { $0.naming { self.names[$0] } }
            let followers = self.state.withLock { [changes] state in
                state.alerts = alerts
                state.journal.add(changes, at: .now)
                return changes.isEmpty ? [] : Array(state.followers.values)
            }
            for follower in followers { follower.yield() }
            self.log(log.lines(changes, unjudged: book.takeLost(), seconds: work.sample?.seconds ?? 0))
        }
    }

    private func log(_ lines: [AlertLog.Line]) {
        for line in lines {
            switch line {
            case .change(.began(let alert)), .change(.rose(let alert)):
                self.logger.warning("alert \(alert.description)")
            case .change(.ended(let alert)): self.logger.notice("alert is over: \(alert.description)")
            case .silence(let rule, let user):
                let of = user.map { " of \($0)" } ?? ""
                self.logger.warning("alert \(rule): no more lines\(of) for up to an hour: see trafficctl alerts")
            case .unjudged(let count):
                self.logger.warning(
                    "alerts: \(count) destinations of processes were not judged, for want of room: see trafficd's limits with trafficctl doctor --limits"
                )
            }
        }
    }

    /// The rules that are judged. Without history some are not, and only after a reload: a start refuses them.
    private func judgeable(_ rules: [AlertRule]) -> [AlertRule] {
        guard self.history == nil else { return rules }
        for rule in rules where rule.kind.reported.needsHistory {
            self.logger.warning("alert \(rule.name) needs history: set state_directory and restart")
        }
        return rules.filter { !$0.kind.reported.needsHistory }
    }

    /// Asks history which contacts are new, one question at a time.
    private func ask(about contacts: [Contact]) {
        guard !contacts.isEmpty, let history else { return }
        let isFree = self.state.withLock { state in
            defer { state.isAskingContacts = true }
            return !state.isAskingContacts
        }
        guard isFree else { return }
        Task {
            do {
                let answers = try await history.learn(contacts, at: .now)
                self.hand { state in
                    (state.isAskingContacts, state.lacksContacts) = (false, false)
                    state.work.answers += zip(answers, contacts).map { ($0, $1) }
                }
            } catch {
                let isNews = self.state.withLock { state in
                    defer { (state.isAskingContacts, state.lacksContacts) = (false, true) }
                    return !state.lacksContacts && !error.isEndOfDaemon
                }
                guard isNews else { return }
                self.logger.warning("alerts about new destinations wait until history answers: \(error)")
            }
        }
    }

    /// Asks history for the bytes of the rules about days and months, one after the other: history takes only a few
    /// questions at once. A minute that ended a day or month is judged with that day or month.
    private func ask(_ rules: [AlertRule]) {
        let rules = rules.filter { $0.kind.reported == .bytes }
        guard let history, !rules.isEmpty else { return }
        // The minute from which on each rule is judged.
        let minutes = self.state.withLock { state -> [(AlertRule, Int64?)]? in
            guard !state.isAsking else { return nil }
            state.isAsking = true
            defer { (state.unjudged, state.unanswered) = (nil, [:]) }
            return rules.map { ($0, [state.unjudged, state.unanswered[$0.name]].compactMap(\.self).min()) }
        }
        guard let minutes else { return }
        Task {
            for (rule, minute) in minutes {
                do {
                    let sums = try await history.sums(of: rule, since: minute, at: .now)
                    self.hand { $0.work.sums += sums.map { ($0, rule) } }
                } catch  where error.isEndOfDaemon {
                    return
                } catch {
                    self.state.withLock { $0.unanswered[rule.name] = minute }
                    self.logger.warning("alert \(rule.name) is not judged, and will be after the next minute: \(error)")
                }
            }
            // A minute that ended meanwhile must not wait for the next one.
            self.hand { state in
                state.isAsking = false
                if state.unjudged != nil { state.work.hasMinute = true }
            }
        }
    }

    /// So many endpoints are asked for at once, so that minutes and other questions never wait long. The rest comes with
    /// the next sample.
    private static let mostPasts = 50

    /// Asks history what was before. After a failure, the next sample asks again.
    private func askForPasts(of endpoints: Set<ServiceEndpoint>) {
        guard let history, !endpoints.isEmpty else { return }
        let isFree = self.state.withLock { state in
            defer { state.isAskingForPasts = true }
            return !state.isAskingForPasts
        }
        guard isFree else { return }
        // In no order: nobody has to wait behind the many endpoints of another user.
        let some = Array(endpoints.shuffled().prefix(Self.mostPasts))
        Task {
            var (pasts, failure) = ([ServiceEndpoint: EndpointPast](), nil as (any Error)?)
            do { pasts = try await history.pasts(of: some) } catch { failure = error }
            let isNews = self.state.withLock { [failure] state in
                defer { state.hasNoPasts = failure != nil }
                return !state.hasNoPasts
            }
            if let failure, isNews, !failure.isEndOfDaemon {
                self.logger.warning("alerts about requests over the past wait until history answers: \(failure)")
            }
            self.hand { [pasts] state in
                state.work.pasts.merge(pasts) { $1 }
                state.isAskingForPasts = false
            }
        }
    }
}

extension Error {
    /// History answers no more, because the daemon stops. Nobody needs to know.
    fileprivate var isEndOfDaemon: Bool { self as? HistoryRefusal == .ended }
}
