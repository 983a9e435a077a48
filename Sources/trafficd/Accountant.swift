import Logging
import TrafficCapture
import TrafficControl
import TrafficLedger
import TrafficModel

/// The way of a byte in user space: capture → ledger → snapshot, on one thread that owns all three.
final class Accountant {
    private let source: any CaptureSource
    private let resolver: ProcessResolver
    private let inbox: ReportInbox
    private let host = HostFacts.description()
    private let daemon: DaemonDescription
    private let logger: Logger
    private let doctor: Doctor
    private let box: SnapshotBox
    private var ledger: Ledger
    private var addresses = HostAddressWatch()
    private var recorder: EventRecorder?
    private var failures = ReadFailureLog()
    /// Rounds in a row in which nothing at all could be read.
    private var vainRounds = 0
    private static let vainRoundLimit = 10
    /// How long a recording daemon goes on, when it is told to stop, to read rows that are awaited.
    private static let lastSweepsNanoseconds: UInt64 = 5_000_000_000

    init(
        source: any CaptureSource,
        resolver: ProcessResolver,
        inbox: ReportInbox,
        ledger: Ledger,
        daemon: DaemonDescription,
        recorder: consuming EventRecorder?,
        doctor: Doctor,
        box: SnapshotBox,
        logger: Logger
    ) {
        self.source = source
        self.resolver = resolver
        self.inbox = inbox
        self.daemon = daemon
        self.logger = logger
        self.doctor = doctor
        self.box = box
        self.ledger = ledger
        self.recorder = recorder
    }

    /// Counts until `stopper` stops it. A last round of counting comes before the return.
    ///
    /// - Throws: ``CaptureError`` where nothing counts any more: no part of the capture could be read, several rounds in a row.
    func run(interval: Duration, stopper: Stopper, demand: SweepDemand) throws(CaptureError) {
        let pace = try CapturePace(
            wakeDescriptor: self.source.wakeDescriptor,
            stopper: stopper,
            inbox: self.inbox,
            demand: demand,
            interval: interval
        )
        var step = CapturePace.Step.sweep
        while true {
            switch step {
            case .drain:
                try self.source.drain { self.absorb($0) }
                // Processes that have ended already then leave the list before others come.
                for event in self.resolver.takeResults() { self.absorb(event) }
            case .collect:
                try self.collect()
            case .look:
                try self.sweep(at: HostFacts.look, isTick: false)
            case .sweep:
                try self.sweep()
            case .stop:
                return try self.sweepToTheEnd()
            }
            for owner in self.ledger.takeUnresolved() { self.resolver.resolve(owner) }
            step = pace.next()
        }
    }

    /// A last sweep, and where somebody will read its events, further ones for some seconds while rows are awaited.
    private func sweepToTheEnd() throws(CaptureError) {
        let end = MonotonicClock.nanoseconds() + Self.lastSweepsNanoseconds
        try self.sweep()
        while self.recorder != nil, self.source.status.awaitsRows {
            guard MonotonicClock.nanoseconds() < end else {
                self.logger.warning("the record lacks some bytes of a flood: the machine was too busy")
                return
            }
            try self.sweep()
        }
    }

    /// - Parameter isTick: Of the interval; else for the sake of requests that wait.
    private func sweep(
        at time: () -> CaptureEvent = HostFacts.tick,
        isTick: Bool = true
    ) throws(CaptureError) {
        // Before the sweep: a snapshot holds every byte from before the time it bears, and from before the requests that it answers, but for
        // rows that are awaited.
        let requests = self.box.beginSweep()
        let end = time()
        try self.collect()
        // After the sockets, for new ones may be of a container that is new; before the tick, which says how far their bytes went.
        self.refreshAddresses()
        self.absorb(end)
        var status = self.source.status
        let unwatched = self.resolver.unwatched
        if unwatched > 0 {
            status.blindSpots.append(
                "at present when \(unwatched) processes end, at once: no descriptors left to watch them"
            )
        }
        let snapshot = self.ledger.snapshot(
            countingSince: self.daemon.startedAt,
            host: self.host,
            daemon: self.daemon,
            capture: status
        )
        self.box.publish(checks: self.doctor.checks(loss: snapshot.capture.loss))
        self.box.publish(snapshot, answering: requests, isTick: isTick)
    }

    /// A round of observations, and what was reported before it.
    private func collect() throws(CaptureError) {
        // Before the sweep: whatever a report speaks of is counted then.
        let (reports, dropped) = self.inbox.take()
        for event in self.resolver.takeResults() { self.absorb(event) }
        try self.observe()
        self.absorb(.reports(reports, dropped: dropped))
    }

    private func observe() throws(CaptureError) {
        do {
            try self.source.sweep { self.absorb($0) }
            self.vainRounds = 0
        } catch {
            self.vainRounds += 1
            if self.vainRounds >= Self.vainRoundLimit { throw error }
        }
        for line in self.failures.lines(self.source.readFailures, now: MonotonicClock.nanoseconds()) {
            self.logger.warning("\(line)")
        }
    }

    private func refreshAddresses() {
        do {
            if let event = try self.addresses.refresh() { self.absorb(event) }
        } catch {
            // Bytes are counted all the same; only the scope of some may be farther than it is.
            self.logger.warning("can't read this host's addresses: \(error)")
        }
    }

    private func absorb(_ event: CaptureEvent) {
        if case .socket(let observation) = event { self.addresses.notice(observation) }
        self.ledger.absorb(event)
        guard self.recorder != nil else { return }
        do {
            try self.recorder?.record(event)
        } catch {
            // Counting goes on; the record ends where it could be written.
            self.logger.error("recording stopped: \(error)")
            self.recorder = nil
        }
    }
}
