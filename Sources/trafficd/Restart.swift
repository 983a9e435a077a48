import Glibc
import Logging
import TrafficCapture
import TrafficLedger
import TrafficModel

/// What a daemon begins to work with: the capture and the ledger of an earlier daemon, or new ones.
struct Restart {
    let selection: MethodSelection
    let ledger: Ledger
    let countingSince: Timestamp
    /// Whether an earlier daemon's counting goes on.
    let goesOn: Bool

    /// `CLOCK_BOOTTIME`.
    private var countedUntil: UInt64 {
        self.ledger.balance(countingSince: self.countingSince).takenBoottimeNanoseconds
    }

    /// - Parameters:
    ///   - pins: `nil`: the capture ends with the daemon.
    ///   - startedAt: When this daemon started.
    /// - Throws: ``CaptureError`` or ``PinError`` if no capture can be started.
    static func make(
        _ configuration: Configuration,
        pins: PinDirectory?,
        file: CheckpointFile,
        startedAt: Timestamp,
        logger: Logger
    ) throws -> Restart {
        guard let pins else {
            return try self.beginAnew(configuration, pins: nil, startedAt: startedAt, logger: logger)
        }
        if pins.hasCapture {
            do {
                let restart = try self.goOn(configuration, pins: pins, file: file)
                let away = MonotonicClock.boottimeNanoseconds() -| restart.countedUntil
                logger.notice("goes on after \(away / 1_000_000_000) s in which the kernel counted without a daemon")
                return restart
            } catch AdoptionRefusal.options {
                throw StartFailure(
                    code: 1,
                    message:
                        "the capture in \(pins.path) counts with other options: start with its --method and --wire, or run trafficd unload --pin-directory \(pins.path) first"
                )
            } catch let error where !self.isLasting(error) {
                throw error
            } catch {
                logger.warning("begins at 0 and drops what the kernel counted without a daemon: \(error)")
                file.remove()
            }
        }
        try pins.removeAll()
        return try self.beginAnew(configuration, pins: pins, startedAt: startedAt, logger: logger)
    }

    /// Whether the next start would fail for the same reason. Other errors end the start: what the kernel counted must
    /// not be dropped because memory was short for a moment.
    private static func isLasting(_ error: any Error) -> Bool {
        switch error {
        case PinError.system(_, _, let errno): errno == ENOENT
        case is CaptureError: false
        default: true
        }
    }

    /// - Throws: If what is in the kernel and the checkpoint do not belong together, or are not what is asked for.
    private static func goOn(
        _ configuration: Configuration,
        pins: PinDirectory,
        file: CheckpointFile
    ) throws -> Restart {
        guard let checkpoint = try file.read() else { throw AdoptionRefusal.noPosition }
        let ledger = try Ledger(
            checkpoint: checkpoint.ledger,
            retention: configuration.retention,
            classes: configuration.classes
        )
        let capture = try BPFCapture(
            adopting: pins,
            from: checkpoint.position,
            wanted: configuration.method,
            wire: configuration.wire
        )
        return Restart(
            selection: MethodSelection(goingOnWith: capture),
            ledger: ledger,
            countingSince: checkpoint.countingSince,
            goesOn: true
        )
    }

    private static func beginAnew(
        _ configuration: Configuration,
        pins: PinDirectory?,
        startedAt: Timestamp,
        logger: Logger
    ) throws -> Restart {
        let selection = try MethodSelection(
            wanted: configuration.method,
            wire: configuration.wire,
            outlivesDaemon: pins != nil
        )
        if let pins, try !selection.source.pin(in: pins) {
            let method = selection.source.status.method.rawValue
            let cause = configuration.wire == .audited ? "--wire audited" : "method \(method)"
            logger.warning("--pin-directory has no effect: counting by \(cause) ends with the daemon")
        }
        return Restart(
            selection: selection,
            ledger: Ledger(retention: configuration.retention, classes: configuration.classes),
            countingSince: startedAt,
            goesOn: false
        )
    }
}

extension Configuration {
    var retention: Ledger.Retention { Ledger.Retention(exitedProcesses: self.keepExited) }
}
