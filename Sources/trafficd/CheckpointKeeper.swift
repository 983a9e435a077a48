import Logging
import TrafficCapture
import TrafficLedger
import TrafficModel

/// Keeps the state of the ledger in a file, and then tells the capture that the kernel may forget what was read.
struct CheckpointKeeper {
    private let file: CheckpointFile
    private let countingSince: Timestamp
    private let logger: Logger
    private var pace = CheckpointPace()
    /// Whether the file has a checkpoint of this daemon.
    private var hasCheckpoint = false
    /// Successive failures to write.
    private var failures = 0
    /// After so many failures, a second apart, the daemon goes on without checkpoints. Until then the kernel keeps what
    /// was read.
    private static let failureLimit = 5

    init(_ file: CheckpointFile, countingSince: Timestamp, logger: Logger) {
        (self.file, self.countingSince, self.logger) = (file, countingSince, logger)
    }

    /// The minute that ends with the last checkpoint goes to history.
    ///
    /// - Parameter isWritten: Whether history has the minute before.
    /// - Returns: Whether the next daemon will know. If not, the minute must go on.
    func handOver(_ ledger: Ledger, of source: any CaptureSource, isWritten: Bool) -> Bool {
        guard self.hasCheckpoint, let position = source.position else { return true }
        if isWritten { self.file.markWritten() }
        return (try? self.file.markHanded(ledger, at: position, countingSince: self.countingSince)) != nil
    }

    /// History begins with what comes after the last checkpoint. Without a file that says so, it lacks the first minute if
    /// the daemon is killed in it.
    func beginHistory(_ ledger: Ledger, of source: any CaptureSource) {
        guard self.hasCheckpoint, let position = source.position else { return }
        try? self.file.markAllWritten(ledger, at: position, countingSince: self.countingSince)
    }

    /// - Parameters:
    ///   - rests: Whether the keeper may still rest after the last checkpoint. After a failure it rests in any case.
    ///   - isLast: The daemon ends, so there is no later attempt.
    /// - Returns: Whether the next daemon knows all this, or knows that it knows nothing.
    @discardableResult
    mutating func keep(
        _ ledger: Ledger,
        of source: any CaptureSource,
        rests: Bool = true,
        isLast: Bool = false
    ) throws(CaptureError) -> Bool {
        let (began, work) = (MonotonicClock.nanoseconds(), MonotonicClock.threadNanoseconds())
        guard let position = source.position else { return true }
        guard !self.pace.rests(at: began) || isLast || !rests && self.failures == 0 else { return false }
        do {
            try self.file.write(ledger, at: position, countingSince: self.countingSince)
            if self.failures >= Self.failureLimit { self.logger.notice("checkpoints are written again") }
            self.failures = 0
            self.hasCheckpoint = true
        } catch {
            self.failures += 1
            self.pace.failed(at: began)
            guard self.failures >= Self.failureLimit else { return false }
            // The daemon goes on, and acknowledges what it has read. The old checkpoint lacks that, so it goes.
            self.file.remove()
            self.hasCheckpoint = false
            if self.failures == Self.failureLimit {
                self.logger.error("can't write a checkpoint: \(error); until this works again, a restart begins at 0")
            }
        }
        try source.acknowledge()
        self.pace.wrote(
            since: began,
            work: MonotonicClock.threadNanoseconds() -| work,
            at: MonotonicClock.nanoseconds()
        )
        return true
    }
}
