import CommandOptions
import Glibc
import Logging
import TrafficCapture
import TrafficConfiguration
import TrafficHistory
import TrafficLedger
import TrafficModel

/// What a daemon begins to work with: the totals of an earlier daemon or none, and that daemon's capture or a new one.
struct Restart {
    let selection: MethodSelection
    let ledger: Ledger
    let countingSince: Timestamp
    /// What history has of this count. `nil`: the count begins.
    let inHistory: Balance?

    /// - Parameters:
    ///   - pins: `nil`: the capture ends with the daemon.
    ///   - mark: Up to where history has its last count.
    ///   - startedAt: When this daemon started.
    /// - Throws: If no capture can be started. Then what was pinned stays: the kernel goes on counting, and a later start
    ///   may succeed.
    static func make(
        _ configuration: Configuration,
        pins: PinDirectory?,
        file: CheckpointFile,
        mark: HistoryMark.Answer,
        startedAt: Timestamp,
        logger: Logger
    ) throws -> Restart {
        guard let pins else {
            self.leave(file, logger)
            return try self.beginAnew(configuration, pins: nil, startedAt: startedAt, logger: logger)
        }
        // Nothing is pinned at the first start and after `trafficd unload`, which ends a count.
        guard try pins.hasCapture() else {
            file.remove()
            return try self.beginAnew(configuration, pins: pins, startedAt: startedAt, logger: logger)
        }
        var predecessor: Predecessor
        do {
            predecessor = try Predecessor(configuration, file: file, mark: mark, logger: logger)
        } catch let error where Self.isLasting(error) {
            logger.warning("begins at 0 and drops what the kernel counted without a daemon: \(error)")
            file.remove()
            return try self.beginAnew(configuration, pins: pins, startedAt: startedAt, logger: logger)
        }
        // Of a daemon that was killed while it replaced a capture.
        try pins.removeAll(but: predecessor.position)
        // Without the ledger's sockets, nobody can say which of the kernel's bytes were counted.
        if let form = predecessor.unknownForm {
            return try predecessor.replaceCapture(configuration, pins: pins, file: file, cause: form, logger: logger)
        }
        var capture: BPFCapture?
        var cause: any Error = AdoptionRefusal.options
        do {
            capture = try BPFCapture(adopting: pins, from: predecessor.position)
        } catch let error where Self.isLasting(error) {
            cause = error
        }
        if let capture, predecessor.position.counts(by: configuration.method, wire: configuration.wire) {
            return predecessor.goOn(with: capture, logger: logger)
        }
        if let last = capture.take() { try predecessor.readToTheEnd(last, file) }
        return try predecessor.replaceCapture(configuration, pins: pins, file: file, cause: cause, logger: logger)
    }

    /// This daemon does not go on with what an earlier one left, and no later one will: history has this one's bytes, and
    /// the counting programs of the earlier one have them, too.
    private static func leave(_ file: CheckpointFile, _ logger: Logger) {
        var status = stat()
        // Not access(2), which does without the capability by which the service enters /sys/fs/bpf.
        guard let pins = try? file.read()?.pinDirectory, stat(pins, &status) == 0 else { return }
        file.remove()
        logger.warning(
            "an earlier trafficd has left its counting programs in the kernel, where they still run: sudo trafficd unload --pin-directory \(pins) removes them"
        )
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
            inHistory: nil
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
private struct Predecessor {
    let position: CapturePosition
    let countingSince: Timestamp
    var ledger: Ledger
    /// Why ``ledger`` has only the sums of the last daemon's ledger; `nil`: it has all.
    let unknownForm: CheckpointError?
    /// What history has.
    private let inHistory: Balance

    /// - Throws: Also ``AdoptionRefusal/noPosition`` and ``CheckpointError``.
    init(_ configuration: Configuration, file: CheckpointFile, mark: HistoryMark.Answer, logger: Logger) throws {
        guard let checkpoint = try file.read() else { throw AdoptionRefusal.noPosition }
        (self.position, self.countingSince) = (checkpoint.position, checkpoint.countingSince)
        (self.ledger, self.unknownForm) = try Ledger.restored(checkpoint, configuration)
        if let balance = Self.balance(
            self.ledger,
            checkpoint,
            configuration,
            in: file,
            upTo: mark,
            logger: logger
        ) {
            self.inHistory = balance
        } else {
            self.inHistory = self.ledger.balance(countingSince: self.countingSince)
            guard configuration.stateDirectory != nil else { return }
            try file.markAllWritten(self.ledger, at: self.position, countingSince: self.countingSince)
        }
    }

    /// Never earlier than what history has: no byte may be in it twice.
    ///
    /// - Parameter mark: Up to where history has its last count.
    /// - Returns: What history has of this count. `nil`: all up to the checkpoint, or no history is kept.
    private static func balance(
        _ ledger: Ledger,
        _ last: Checkpoint,
        _ configuration: Configuration,
        in file: CheckpointFile,
        upTo mark: HistoryMark.Answer,
        logger: Logger
    ) -> Balance? {
        guard configuration.stateDirectory != nil else { return nil }
        func balance(_ checkpoint: Checkpoint?) -> Balance? {
            guard let checkpoint, checkpoint.countingSince == last.countingSince else { return nil }
            return try? ledger.earlierBalance(checkpoint.ledger, countingSince: last.countingSince)
        }
        let (handed, written) = (balance(file.readHanded()), balance(file.readWritten()))
        switch mark {
        case .unknown:
            guard let handed else { return written }
            logger.warning("history can't be read at present: it may lack the last minute of the daemon before")
            file.markWritten()
            return handed
        case .at(let mark) where mark.countingSince == last.countingSince:
            if let handed, HistoryMark(handed) == mark {
                file.markWritten()
                return handed
            }
            file.forgetHanded()
            if let written, HistoryMark(written) == mark { return written }
            // Minutes had waited because the disk was full or slow, and the daemon was killed while history wrote them.
            // Nobody knows what it lacks.
            logger.warning("history may lack some minutes of the daemon before, which was killed while it wrote them")
        case .none, .at:
            // It has nothing of this count. If it is another history than before, it begins with the present.
            file.forgetHanded()
            if let written { return written }
        }
        return nil
    }

    /// `CLOCK_BOOTTIME`.
    private var countedUntil: UInt64 {
        self.ledger.balance(countingSince: self.countingSince).takenBoottimeNanoseconds
    }

    /// Goes on with the same totals and the same capture: no byte is missing.
    func goOn(with capture: BPFCapture, logger: Logger) -> Restart {
        let away = MonotonicClock.boottimeNanoseconds() -| self.countedUntil
        logger.notice("goes on after \(Self.seconds(away)) s in which the kernel counted without a daemon")
        return self.restart(MethodSelection(goingOnWith: capture))
    }

    /// Goes on with the same totals and a new capture. What moves between the two is missing; so is what the last one
    /// counted without a daemon, if this daemon can't read it.
    ///
    /// - Throws: Then the last capture stays, with its checkpoint.
    func replaceCapture(
        _ configuration: Configuration,
        pins: PinDirectory,
        file: CheckpointFile,
        cause: any Error,
        logger: Logger
    ) throws -> Restart {
        let selection = try Restart.capture(configuration, pins: pins, logger: logger)
        // Both are pinned until a checkpoint says which one counts.
        let uncounted = MonotonicClock.boottimeNanoseconds() -| self.countedUntil
        var changed = self
        changed.ledger.changeCapture(uncountedNanoseconds: uncounted)
        if let position = selection.source.position {
            do {
                try file.write(changed.ledger, at: position, countingSince: self.countingSince)
            } catch {
                try? pins.removeAll(but: self.position)
                throw error
            }
        } else {
            file.remove()
        }
        try pins.removeAll(but: selection.source.position)
        logger.warning(
            "goes on with the same totals and other counting programs, because \(cause); nothing is counted of \(Self.seconds(uncounted)) s"
        )
        return changed.restart(selection)
    }

    private func restart(_ selection: MethodSelection) -> Restart {
        Restart(selection: selection, ledger: self.ledger, countingSince: self.countingSince, inHistory: self.inHistory)
    }

    /// Takes over what the last capture has counted, also into the file: this daemon may be killed, too.
    mutating func readToTheEnd(_ capture: BPFCapture, _ file: CheckpointFile) throws {
        let deadline = MonotonicClock.nanoseconds() + Self.patience
        repeat {
            let end = HostFacts.tick()
            try capture.sweep { self.ledger.absorb($0) }
            self.ledger.absorb(end)
            guard let position = capture.position else { continue }
            try file.write(self.ledger, at: position, countingSince: self.countingSince)
            // Makes room for what the programs have put aside meanwhile.
            try capture.acknowledge()
        } while capture.status.awaitsRows && MonotonicClock.nanoseconds() < deadline
    }

    /// Nanoseconds. On a machine that is too busy for longer, the last bytes of sockets that closed in a flood are lost.
    private static let patience: UInt64 = 5_000_000_000

    private static func seconds(_ nanoseconds: UInt64) -> String {
        let tenths = (nanoseconds +| 99_999_999) / 100_000_000
        return "\(tenths / 10).\(tenths % 10)"
    }
}

extension Ledger {
    /// - Returns: Only the sums of the ledger, and why, if the program that wrote the checkpoint was of another version.
    fileprivate static func restored(
        _ checkpoint: Checkpoint,
        _ configuration: Configuration
    ) throws(CheckpointError) -> (ledger: Ledger, unknownForm: CheckpointError?) {
        let (retention, classes) = (configuration.retention, configuration.classes)
        func sums() throws(CheckpointError) -> Ledger {
            try Ledger(sums: checkpoint.ledger, retention: retention, classes: classes)
        }
        do throws(CheckpointError) {
            return (try Ledger(checkpoint: checkpoint.ledger, retention: retention, classes: classes), nil)
        } catch .otherVersion(let version, let known) {
            return (try sums(), .otherVersion(version, known: known))
        } catch .otherForm {
            return (try sums(), .otherForm)
        } catch .otherSums {
            return (try sums(), .otherSums)
        }
    }
}

extension Configuration {
    var retention: Ledger.Retention {
        Ledger.Retention(exitedProcesses: self.keepExited.duration, closedSockets: self.keepClosed.duration)
    }
}
