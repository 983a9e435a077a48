import Dispatch
import Glibc
import SQLiteDatabase
import Synchronization
public import TrafficDocuments
public import TrafficFeed
import TrafficLimits
public import TrafficModel
public import TrafficQuery

/// The history of a machine in a file, and the one thread that has the file. Whoever counts hands minutes over and never
/// waits; whoever asks waits for an answer.
public final class History: HistorySource {
    /// Answers a question.
    private typealias Answering = @Sendable (Result<HistoryStore, HistoryRefusal>) -> Void
    private typealias Asker = WaitingQuestions<Answering>.Asker

    private enum Job {
        case minute(HistoryMinute)
        case question(Answering)
        case stop
    }

    /// What this tells the daemon's log.
    public enum News: Sendable, Hashable, CustomStringConvertible {
        /// The file was damaged, or of another machine, and has another name now.
        case setAside(path: String, reason: String)
        /// Minutes wait until the file can be written.
        case unwritten(reason: String)
        case writtenAgain
        /// The daemon stops, and these minutes, or sums of several, could not be written.
        case lost(minutes: Int)

        public var description: String {
            switch self {
            case .setAside(let path, let reason): "began a new history, and kept the old one as \(path): \(reason)"
            case .unwritten(let reason): "can't write history, and keeps it in memory until it can: \(reason)"
            case .writtenAgain: "history is written again"
            case .lost(let minutes):
                "history lacks the last \(minutes) minutes or more, which could not be written; if the kernel goes on counting, the next trafficd adds them"
            }
        }
    }

    /// Minutes that wait to be written. Beyond, the two oldest of a month become one.
    private static let mostUnwritten = 60
    /// Questions that wait: of a user, and of all users. Beyond, they are turned down.
    static let mostQuestions = UserLimit(8, inAll: 32)
    /// Those of all administrators. One view of the page asks three.
    static let mostOfAdministrators = 64
    private static let busy = HistoryRefusal.unavailable("too many questions wait; ask again in some seconds")

    private struct Queue {
        /// Minutes, and the end.
        var jobs: [Job] = []
        var questions = WaitingQuestions<Answering>(
            most: History.mostQuestions,
            ofAdministrators: History.mostOfAdministrators
        )
        /// The thread takes no further jobs.
        var isClosed = false

        /// Questions come last: a minute waits for one question at most.
        mutating func takeNext() -> Job? {
            self.jobs.isEmpty ? self.questions.takeNext().map { .question($0) } : self.jobs.removeFirst()
        }
    }

    private let queue = Mutex(Queue())
    private let filled = DispatchSemaphore(value: 0)
    private let lock: LockedDirectory
    private let host: String
    private let userName: @Sendable (UInt32) -> String?
    private let userNames: @Sendable ([UInt32]) -> [UInt32: String]
    private let retention: Mutex<HistoryRetention>
    private let report: @Sendable (News) -> Void
    private let written = Mutex(HistoryMark.Answer.unknown)

    /// Takes the directory. No other daemon can have it at the same time.
    ///
    /// - Parameters:
    ///   - directory: It is made if it is missing; its parent must exist.
    ///   - host: The host's name, for reports.
    ///   - userName: The name of a user, for filters; `nil` if it has none. Called on the history's own thread, which may
    ///     wait for it, and again and again for the same user.
    ///   - userNames: The names of users, for reports: those that are known without waiting long.
    ///   - report: Called on the history's own thread.
    /// - Throws: ``HistoryError``.
    public init(
        directory: String,
        host: String,
        retention: HistoryRetention,
        userName: @escaping @Sendable (UInt32) -> String?,
        userNames: @escaping @Sendable ([UInt32]) -> [UInt32: String] = { _ in [:] },
        report: @escaping @Sendable (News) -> Void
    ) throws(HistoryError) {
        self.lock = try LockedDirectory(taking: directory)
        self.host = host
        (self.userName, self.userNames) = (userName, userNames)
        self.retention = Mutex(retention)
        self.report = report
        do {
            let store = try HistoryStore(path: self.lock.databasePath, retention: retention, machine: Self.machine)
            let mark = try store.mark()
            self.written.withLock { $0 = mark.map { .at($0) } ?? .none }
        } catch let error as HistoryFileError where !error.isMendable {
            throw .notOurs(path: self.lock.databasePath, reason: "\(error)")
        } catch {
            // The thread meets the same error, and mends it or waits.
        }
        // The thread opens the file at once, so that the log says now what is wrong with it.
        self.filled.signal()
    }

    // MARK: Callers

    /// Never waits.
    public func add(_ minute: HistoryMinute) { self.enqueue(.minute(minute)) }

    /// Up to where the file has what was handed over.
    public var mark: HistoryMark.Answer { self.written.withLock { $0 } }

    /// In force with the next minute that is written.
    public func keep(_ retention: HistoryRetention) { self.retention.withLock { $0 = retention } }

    public func answer(_ question: HistoryQuestion) async throws -> HistoryReport {
        try await self.answer(question, to: question.uid.map { .user(PayingUser($0)) } ?? .administrators)
    }

    /// A question of the daemon itself. It has no limit and goes first: alerts must not wait behind those who ask.
    ///
    /// - Throws: ``HistoryRefusal``.
    public func answerForAlerts(_ question: HistoryQuestion) async throws -> HistoryReport {
        try await self.answer(question, to: .daemon)
    }

    private func answer(_ question: HistoryQuestion, to asker: Asker) async throws -> HistoryReport {
        let (host, userName, userNames) = (self.host, self.userName, self.userNames)
        return try await self.ask(asker) {
            var report = try $0.report(question, host: host, now: Int64(time(nil)), userName: userName)
            report.name(userNames)
            return report
        }
    }

    public func answer(_ question: MonthQuestion) async throws -> MonthReport {
        let host = self.host
        return try await self.ask(.administrators) { try $0.report(question, host: host, now: Int64(time(nil))) }
    }

    /// What it says of each endpoint's last days.
    ///
    /// - Throws: ``HistoryRefusal``.
    public func pasts(of endpoints: [ServiceEndpoint]) async throws -> [ServiceEndpoint: EndpointPast] {
        try await self.ask(.daemon) { store in
            try store.file.limited(seconds: store.patience) {
                try store.pasts(of: endpoints, now: Int64(time(nil)))
            }
        }
    }

    /// Says which contacts are new, and knows them from now on.
    ///
    /// - Returns: An answer for each, in the same order.
    /// - Throws: ``HistoryRefusal``.
    package func learn(_ contacts: [Contact], at time: Timestamp) async throws -> [ContactAnswer] {
        try await self.ask(.daemon) { try $0.learn(contacts, at: time.seconds) }
    }

    /// - Parameter question: Called on the history's own thread.
    private func ask<Answer: Sendable>(
        _ asker: Asker,
        _ question: @escaping @Sendable (HistoryStore) throws -> Answer
    ) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            let (refusal, gaveWay) = self.queue.withLock { queue -> (HistoryRefusal?, Answering?) in
                if queue.isClosed { return (.ended, nil) }
                let answering: Answering = { store in
                    continuation.resume(with: Result { try Self.answer(question, from: store) })
                }
                let (isAccepted, gaveWay) = queue.questions.add(answering, of: asker)
                return (isAccepted ? nil : Self.busy, gaveWay)
            }
            gaveWay?(.failure(Self.busy))
            if let refusal { return continuation.resume(throwing: refusal) }
            self.filled.signal()
        }
    }

    private static func answer<Answer>(
        _ question: (HistoryStore) throws -> Answer,
        from store: Result<HistoryStore, HistoryRefusal>
    ) throws -> Answer {
        do {
            return try question(try store.get())
        } catch let error as SQLiteError where error.isInterrupt {
            throw HistoryRefusal.tooLong(
                "The answer takes too long: take a longer bucket, a shorter time, or fewer words to divide by."
            )
        } catch let error as SQLiteError {
            throw HistoryRefusal.unavailable(error.description)
        }
    }

    /// Ends ``run()`` when everything that was handed over is written.
    public func stop() { self.enqueue(.stop) }

    private func enqueue(_ job: Job) {
        self.queue.withLock { $0.jobs.append(job) }
        self.filled.signal()
    }

    // MARK: The thread

    /// Writes and answers until ``stop()``.
    public func run() {
        var (store, unwritten, hasFailed): (HistoryStore?, [HistoryMinute], Bool) = (nil, [], false)
        while true {
            self.filled.wait()
            let job = self.queue.withLock { $0.takeNext() }
            // localtime_r(3) alone does not notice that the host has got another time zone.
            tzset()
            switch job {
            case .minute(let minute):
                unwritten.append(minute)
                if unwritten.count > Self.mostUnwritten { Self.join(&unwritten) }
            case .question, .stop, nil: break
            }
            let failure = self.write(&unwritten, to: &store)
            if let failure, !hasFailed { self.report(.unwritten(reason: failure)) }
            if failure == nil, hasFailed { self.report(.writtenAgain) }
            hasFailed = failure != nil
            switch job {
            case .question(let answer):
                answer(store.map { .success($0) } ?? .failure(.unavailable(failure ?? "the file is not open")))
            case .stop:
                if !unwritten.isEmpty { self.report(.lost(minutes: unwritten.count)) }
                return self.refuseTheRest()
            case .minute, nil: break
            }
        }
    }

    /// Makes one of the two oldest minutes that are of the same month. So each byte is in its month, however long it waits.
    static func join(_ minutes: inout [HistoryMinute]) {
        let months = minutes.map { HistoryLevel.month.start(of: $0.time) }
        guard let index = months.indices.dropLast().first(where: { months[$0] == months[$0 + 1] }) else { return }
        let older = minutes.remove(at: index)
        minutes[index].add(older)
    }

    private func refuseTheRest() {
        let rest = self.queue.withLock { queue in
            queue.isClosed = true
            return queue.questions.all
        }
        for (_, answer) in rest { answer(.failure(.ended)) }
    }

    /// - Returns: Why something is still unwritten; `nil` if everything is in the file.
    private func write(
        _ minutes: inout [HistoryMinute],
        to store: inout HistoryStore?,
        mayBeginAnew: Bool = true
    ) -> String? {
        do {
            if store == nil { store = try self.open() }
            store?.retention = self.retention.withLock { $0 }
            guard let last = minutes.last else { return nil }
            // All at once, so that the mark is the one of the last minute that was handed over.
            try store?.add(minutes)
            minutes.removeAll()
            self.written.withLock { $0 = last.mark.map { .at($0) } ?? .none }
            return nil
        } catch let error as SQLiteError where error.isCorruption && mayBeginAnew {
            // Damage that opening the file does not find.
            store = nil
            do throws(HistoryError) {
                try self.setAside("\(error)")
            } catch {
                return "\(error)"
            }
            return self.write(&minutes, to: &store, mayBeginAnew: false)
        } catch {
            return "\(error)"
        }
    }

    private func open() throws -> HistoryStore {
        let machine = Self.machine
        let retention = self.retention.withLock { $0 }
        let open = { try HistoryStore(path: self.lock.databasePath, retention: retention, machine: machine) }
        do {
            return try open()
        } catch let error as SQLiteError where error.isCorruption {
            try self.setAside("\(error)")
        } catch let error as HistoryFileError where error.isMendable {
            try self.setAside("\(error)")
        }
        return try open()
    }

    private func setAside(_ reason: String) throws(HistoryError) {
        self.report(.setAside(path: try self.lock.setDatabaseAside(), reason: reason))
    }

    /// The machine's id (machine-id(5)); `nil` if it can't be read. It is written to the file, and sent to nobody.
    private static var machine: String? {
        let descriptor = Glibc.open("/etc/machine-id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var id = [UInt8](repeating: 0, count: 32)
        guard unsafe read(descriptor, &id, id.count) == id.count else { return nil }
        return String(validating: id, as: UTF8.self)
    }
}
