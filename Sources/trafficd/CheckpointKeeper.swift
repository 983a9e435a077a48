import Logging
import TrafficCapture
import TrafficLedger
import TrafficModel

/// Keeps the state of the ledger in a file, and then tells the capture that the kernel may forget what was read.
struct CheckpointKeeper {
    private let file: CheckpointFile
    private let countingSince: Timestamp
    private let logger: Logger
    /// Writing a checkpoint takes time for each process and socket. So after one the keeper rests twenty times as long,
    /// and what was read meanwhile stays in the kernel a little longer.
    private var restsUntil: UInt64 = 0
    private static let restFactor: UInt64 = 20
    /// Successive failures to write.
    private var failures = 0
    /// After so many failures, a second apart, the daemon goes on without checkpoints. Until then the kernel keeps what
    /// was read.
    private static let failureLimit = 5
    private static let retryNanoseconds: UInt64 = 1_000_000_000

    init(_ file: CheckpointFile, countingSince: Timestamp, logger: Logger) {
        (self.file, self.countingSince, self.logger) = (file, countingSince, logger)
    }

    /// - Parameter rests: Whether the keeper may still rest after the last checkpoint.
    mutating func keep(
        _ ledger: Ledger,
        of source: any CaptureSource,
        rests: Bool = true
    ) throws(CaptureError) {
        let began = MonotonicClock.nanoseconds()
        guard !rests || began >= self.restsUntil, let position = source.position else { return }
        do {
            try self.file.write(ledger, at: position, countingSince: self.countingSince)
            if self.failures >= Self.failureLimit { self.logger.notice("checkpoints are written again") }
            self.failures = 0
        } catch {
            self.failures += 1
            self.restsUntil = began + Self.retryNanoseconds
            guard self.failures >= Self.failureLimit else { return }
            // The daemon goes on, and acknowledges what it has read. The old checkpoint lacks that, so it goes.
            self.file.remove()
            if self.failures == Self.failureLimit {
                self.logger.error("can't write a checkpoint: \(error); until this works again, a restart begins at 0")
            }
        }
        try source.acknowledge()
        let now = MonotonicClock.nanoseconds()
        self.restsUntil = max(self.restsUntil, now + (now - began) * Self.restFactor)
    }
}
