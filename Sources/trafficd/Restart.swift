import CommandOptions
import Glibc
import Logging
import TrafficCapture
import TrafficConfiguration
import TrafficLedger
import TrafficModel

/// What a daemon begins to work with: the totals of an earlier daemon or none, and that daemon's capture or a new one.
struct Restart {
    let selection: MethodSelection
    let ledger: Ledger
    let countingSince: Timestamp
    /// Whether an earlier daemon's totals go on.
    let goesOn: Bool

    /// - Parameters:
    ///   - pins: `nil`: the capture ends with the daemon.
    ///   - startedAt: When this daemon started.
    /// - Throws: ``CaptureError`` or ``PinError`` if no capture can be started. Then what is pinned stays: the kernel
    ///   goes on counting, and a later start may succeed.
    static func make(
        _ configuration: Configuration,
        pins: PinDirectory?,
        file: CheckpointFile,
        startedAt: Timestamp,
        logger: Logger
    ) throws -> Restart {
        guard let pins else {
            if let left = try? file.read()?.pinDirectory, access(left, F_OK) == 0 {
                logger.warning(
                    "an earlier trafficd has left its programs in the kernel, where they still count: sudo trafficd unload --pin-directory \(left) removes them"
                )
            }
            return try self.beginAnew(configuration, pins: nil, startedAt: startedAt, logger: logger)
        }
        // Nothing is pinned at the first start and after `trafficd unload`, which ends a count.
        guard try pins.hasCapture() else {
            file.remove()
            return try self.beginAnew(configuration, pins: pins, startedAt: startedAt, logger: logger)
        }
        let left: Left
        do {
            left = try Left(configuration, file: file)
        } catch let error where Self.isLasting(error) {
            logger.warning("begins at 0 and drops what the kernel counted without a daemon: \(error)")
            file.remove()
            return try self.beginAnew(configuration, pins: pins, startedAt: startedAt, logger: logger)
        }
        do {
            return try left.goOn(configuration, pins: pins, logger: logger)
        } catch let error where Self.isLasting(error) {
            return try left.goOnWithOtherPrograms(configuration, pins: pins, file: file, cause: error, logger: logger)
        }
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

    private static func beginAnew(
        _ configuration: Configuration,
        pins: PinDirectory?,
        startedAt: Timestamp,
        logger: Logger
    ) throws -> Restart {
        try pins?.removeAll()
        return Restart(
            selection: try self.capture(configuration, pins: pins, logger: logger),
            ledger: Ledger(retention: configuration.retention, classes: configuration.classes),
            countingSince: startedAt,
            goesOn: false
        )
    }

    /// Begins a capture and pins it, if it can be pinned.
    fileprivate static func capture(
        _ configuration: Configuration,
        pins: PinDirectory?,
        logger: Logger
    ) throws -> MethodSelection {
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
        return selection
    }
}

/// What an earlier daemon left.
private struct Left {
    let position: CapturePosition
    let countingSince: Timestamp
    var ledger: Ledger

    /// - Throws: Also ``AdoptionRefusal/noPosition`` and ``CheckpointError``.
    init(_ configuration: Configuration, file: CheckpointFile) throws {
        guard let checkpoint = try file.read() else { throw AdoptionRefusal.noPosition }
        (self.position, self.countingSince) = (checkpoint.position, checkpoint.countingSince)
        self.ledger = try Ledger(
            checkpoint: checkpoint.ledger,
            retention: configuration.retention,
            classes: configuration.classes
        )
    }

    /// `CLOCK_BOOTTIME`.
    private var countedUntil: UInt64 {
        self.ledger.balance(countingSince: self.countingSince).takenBoottimeNanoseconds
    }

    /// Goes on with the same totals and the same capture: no byte is missing.
    ///
    /// - Throws: Also ``AdoptionRefusal``.
    func goOn(_ configuration: Configuration, pins: PinDirectory, logger: Logger) throws -> Restart {
        guard self.position.counts(by: configuration.method, wire: configuration.wire) else {
            throw AdoptionRefusal.options
        }
        let capture = try BPFCapture(adopting: pins, from: self.position)
        try pins.removeAll(but: self.position)
        let away = MonotonicClock.boottimeNanoseconds() -| self.countedUntil
        logger.notice("goes on after \(Self.seconds(away)) s in which the kernel counted without a daemon")
        return self.restart(MethodSelection(goingOnWith: capture))
    }

    /// Goes on with the same totals and a new capture. What moves between the two is missing; so is what the last one
    /// counted without a daemon, if this daemon can't read it.
    func goOnWithOtherPrograms(
        _ configuration: Configuration,
        pins: PinDirectory,
        file: CheckpointFile,
        cause: any Error,
        logger: Logger
    ) throws -> Restart {
        var left = self
        if case AdoptionRefusal.options = cause { try left.readToTheEnd(pins, file) }
        let selection = try Restart.capture(configuration, pins: pins, logger: logger)
        // Both are pinned until a checkpoint says which one counts.
        let uncounted = MonotonicClock.boottimeNanoseconds() -| left.countedUntil
        left.ledger.changeCapture(uncountedNanoseconds: uncounted)
        if let position = selection.source.position {
            try file.write(left.ledger, at: position, countingSince: self.countingSince)
        } else {
            file.remove()
        }
        try pins.removeAll(but: selection.source.position)
        logger.warning(
            "goes on with other programs, because \(cause); nothing counted for \(Self.seconds(uncounted)) s"
        )
        return left.restart(selection)
    }

    private func restart(_ selection: MethodSelection) -> Restart {
        Restart(selection: selection, ledger: self.ledger, countingSince: self.countingSince, goesOn: true)
    }

    /// Takes over what the last capture has counted, also into the file: this daemon may be killed, too.
    private mutating func readToTheEnd(_ pins: PinDirectory, _ file: CheckpointFile) throws {
        let capture = try BPFCapture(adopting: pins, from: self.position)
        let deadline = MonotonicClock.nanoseconds() + Self.patience
        var end: CaptureEvent
        repeat {
            end = HostFacts.tick()
            try capture.sweep { self.ledger.absorb($0) }
        } while capture.status.awaitsRows && MonotonicClock.nanoseconds() < deadline
        self.ledger.absorb(end)
        if let position = capture.position {
            try file.write(self.ledger, at: position, countingSince: self.countingSince)
        }
    }

    /// Nanoseconds. On a machine that is too busy for longer, the last bytes of sockets that closed in a flood are lost.
    private static let patience: UInt64 = 5_000_000_000

    private static func seconds(_ nanoseconds: UInt64) -> String {
        let tenths = (nanoseconds +| 99_999_999) / 100_000_000
        return "\(tenths / 10).\(tenths % 10)"
    }
}

extension Configuration {
    var retention: Ledger.Retention { Ledger.Retention(exitedProcesses: self.keepExited.duration) }
}
