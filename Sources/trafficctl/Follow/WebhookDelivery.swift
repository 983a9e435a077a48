import Glibc
import Synchronization
import TrafficDocuments
import TrafficModel

/// Brings changes of alerts to a server, one after the other. Whoever reads them from the daemon never waits for it.
final class WebhookDelivery: Sendable {
    private struct Waiting {
        var backlog = AlertBacklog()
        /// The last that was read from the daemon.
        var received: AlertPosition?
    }

    private let webhook: Webhook
    private let file: PositionFile?
    private let waiting = Mutex(Waiting())
    private let news: AsyncStream<Void>
    private let filled: AsyncStream<Void>.Continuation

    /// - Parameter file: `nil`: nothing is kept, and the next process begins with what comes then.
    init(_ webhook: Webhook, file: PositionFile?) {
        (self.webhook, self.file) = (webhook, file)
        (self.news, self.filled) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func add(_ notice: AlertNotice) {
        self.waiting.withLock { waiting in
            waiting.received = notice.position
            if notice.change != .following { waiting.backlog.add(notice) }
        }
        self.filled.yield()
    }

    /// Delivers until the task is cancelled.
    ///
    /// - Throws: ``Failure`` if the file can't be written.
    func run() async throws {
        var (saved, refusals) = (nil as AlertPosition?, 0)
        let own = OwnGroup()
        for await _ in self.news {
            var notice: AlertNotice?
            repeat {
                notice = self.waiting.withLock { $0.backlog.takeNext() }
                if let notice, own.contains(notice) {
                    // Our own requests would set off the next change.
                    self.waiting.withLock { $0.backlog.carryOver(notice.droppedBefore) }
                } else if let notice {
                    if notice.droppedBefore > 0 { say("\(notice.droppedBefore) changes were dropped: too many waited") }
                    if let reason = try await self.deliver(notice) {
                        refusals += 1
                        say(
                            "\(self.webhook.name) refuses change \(notice.position), \(reason): given up, \(refusals) so far"
                        )
                    }
                }
                guard let file, let position = self.done, position != saved else { continue }
                try file.save(position)
                saved = position
            } while notice != nil
        }
    }

    /// Up to which change nothing waits. One user after the other gets a turn, so some later changes may be done, too.
    private var done: AlertPosition? {
        self.waiting.withLock { waiting in
            guard var position = waiting.received else { return nil }
            if let first = waiting.backlog.firstNumber(of: position.origin) { position.number = first - 1 }
            return position
        }
    }

    /// Tries until the server takes the change or refuses it for good.
    ///
    /// - Returns: Why the server refuses it.
    private func deliver(_ notice: AlertNotice) async throws -> String? {
        var (backOff, hasFailed) = (BackOff(longest: 300), false)
        while true {
            switch await self.webhook.post(notice) {
            case .accepted:
                if hasFailed { say("\(self.webhook.name) takes changes again") }
                return nil
            case .refused(let reason):
                return reason
            case .later(let reason, let seconds):
                if !hasFailed {
                    say("\(self.webhook.name) does not take change \(notice.position), \(reason): trying again")
                }
                hasFailed = true
                try await Task.sleep(for: .seconds(max(backOff.next(), seconds)))
            }
        }
    }
}

/// This process as the daemon sees it.
private struct OwnGroup {
    private let uid = getuid()
    private let executable: String?

    init() {
        self.executable = unsafe realpath("/proc/self/exe", nil).map { path in
            defer { unsafe free(path) }
            return unsafe String(cString: path)
        }
    }

    /// Whether the alert is about what this program itself moves, for this user.
    func contains(_ notice: AlertNotice) -> Bool {
        // A container could have a program with the same path and uid.
        guard let process = notice.alert?.process, process.containerID == nil else { return false }
        return process.uid == self.uid && process.executable != nil && process.executable == self.executable
    }
}
