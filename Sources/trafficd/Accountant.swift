import CommandOptions
import Logging
import TrafficAPI
import TrafficAlerts
import TrafficCapture
import TrafficConfiguration
import TrafficDocuments
import TrafficEvents
import TrafficFeed
import TrafficHistory
import TrafficInbox
import TrafficLedger
import TrafficModel

/// Moves the counted bytes from the capture to the ledger and then to its readers. One thread owns all three.
final class Accountant {
    private let source: any CaptureSource
    private let resolver: ProcessResolver
    private let inbox: ReportInbox
    private var host = HostFacts.description()
    private let daemon: DaemonDescription
    /// An earlier daemon may have begun to count.
    private let countingSince: Timestamp
    private var checkpoints: CheckpointKeeper
    private let logger: Logger
    private let doctor: Doctor
    private let box: ReadingBox
    private let notification: SystemdNotification
    private var ledger: Ledger
    /// Of the last sweep: the requests for metrics that it answers, and the status. `nil` before the first.
    private var swept: (metricsRequests: UInt64, capture: CaptureStatus)?
    private var metricsPace = MetricsPace()
    private let addresses: HostAddresses
    /// Why they could not be read the last time.
    private var addressFault: String?
    private var recorder: EventRecorder?
    private var history: (feed: HistoryFeed, keeper: History)?
    /// Of the last minute that was handed to history.
    private var handed: HistoryMark?
    /// No earlier daemon has counted.
    private let beginsCount: Bool
    private let alerts: AlertWatch
    /// `nil` if no rule needs samples.
    private var alertFeed: AlertFeed?
    private let localPorts = LocalPorts.range()
    private var failures = ReadFailureLog()
    /// The number of successive rounds in which nothing could be read.
    private var vainRounds = 0
    private static let vainRoundLimit = 10
    /// How long a daemon that records events goes on after the signal to stop, to read awaited rows.
    private static let lastSweepsNanoseconds: UInt64 = 5_000_000_000

    init(
        source: any CaptureSource,
        resolver: ProcessResolver,
        inbox: ReportInbox,
        addresses: HostAddresses,
        ledger: Ledger,
        countingSince: Timestamp,
        inHistory: Balance?,
        checkpoints: CheckpointKeeper,
        daemon: DaemonDescription,
        recorder: consuming EventRecorder?,
        history: History?,
        alerts: AlertWatch,
        doctor: Doctor,
        box: ReadingBox,
        notification: SystemdNotification,
        logger: Logger
    ) {
        self.source = source
        self.resolver = resolver
        self.inbox = inbox
        self.addresses = addresses
        self.daemon = daemon
        self.countingSince = countingSince
        self.checkpoints = checkpoints
        self.logger = logger
        self.alerts = alerts
        self.doctor = doctor
        self.box = box
        self.notification = notification
        self.ledger = ledger
        self.recorder = recorder
        self.beginsCount = inHistory == nil
        let boottime = MonotonicClock.boottimeNanoseconds()
        self.history = history.map {
            let feed =
                inHistory.map(HistoryFeed.init(after:))
                ?? HistoryFeed(countingSince: countingSince, boottimeNanoseconds: boottime)
            return (feed, $0)
        }
    }

    /// Before this daemon counts: should it be killed in its first minute, history lacks all from here on.
    private func beginHistory() throws(CaptureError) {
        guard self.history != nil, self.beginsCount else { return }
        var beginning = self.ledger
        // Of this moment. The ledger itself has its first tick after the first sweep.
        beginning.absorb(HostFacts.tick())
        guard try self.checkpoints.keep(beginning, of: self.source, rests: false) else { return }
        self.checkpoints.beginHistory(beginning, of: self.source)
    }

    /// Counts until `stopper` stops it. Before it returns, it counts a last round.
    ///
    /// - Throws: ``CaptureError`` if counting is impossible: no part of the capture could be read in several successive
    ///   rounds.
    func run(
        _ configuration: Configuration,
        changes: NewConfiguration,
        stopper: Stopper,
        demand: SweepDemand
    ) throws(CaptureError) {
        let pace = try CapturePace(
            wakeDescriptor: self.source.wakeDescriptor,
            stopper: stopper,
            reportsDescriptor: self.inbox.filledDescriptor,
            demand: demand,
            interval: configuration.interval.duration
        )
        var configuration = configuration
        try self.beginHistory()
        defer { self.end() }
        self.watch(configuration.alerts)
        var step = CapturePace.Step.sweep
        while true {
            if let new = changes.take() {
                pace.change(interval: new.interval.duration)
                // History gets what the sums of the old classes have, before a class that is gone takes its sum along.
                if new.classes != configuration.classes {
                    // At a time of its own: the time of the last tick may be the end of another minute.
                    try self.sweep(at: HostFacts.look, isTick: false)
                    try self.endMinute()
                }
                self.ledger.configure(retention: new.retention, classes: new.classes)
                if new.alerts != configuration.alerts { self.watch(new.alerts) }
                configuration = new
                changes.taken()
            }
            switch step {
            case .drain:
                try self.source.drain { self.absorb($0) }
                // So that processes that have ended leave the list before others come.
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
            try self.keep()
            step = pace.next()
        }
    }

    /// The minute is over, because the daemon ends. Counting ends too, unless the capture is pinned.
    private func end() {
        if self.source.position != nil {
            self.logger.notice("the kernel goes on counting without a daemon; sudo trafficd unload ends that")
        }
        do throws(CaptureError) {
            let isKept = try self.checkpoints.keep(self.ledger, of: self.source, rests: false, isLast: true)
            guard isKept else { return }
        } catch {
            self.logger.error("the next start begins at 0: \(error)")
        }
        self.keepHistory(isLast: self.source.position == nil)
    }

    /// A last sweep. If the daemon records events, more sweeps follow for some seconds while rows are awaited.
    private func sweepToTheEnd() throws(CaptureError) {
        let end = MonotonicClock.nanoseconds() + Self.lastSweepsNanoseconds
        try self.sweep()
        while self.recorder != nil, self.source.status.awaitsRows {
            guard MonotonicClock.nanoseconds() < end else {
                self.logger.warning("the record lacks some bytes of a flood, which are late")
                return
            }
            // Where the capture outlives the daemon, rows wait for a checkpoint.
            try self.keep(rests: false)
            try self.sweep()
        }
    }

    /// - Parameter isTick: Whether the interval caused the sweep. Otherwise waiting requests caused it.
    private func sweep(
        at time: () -> CaptureEvent = HostFacts.tick,
        isTick: Bool = true
    ) throws(CaptureError) {
        // Both come before the sweep. So a reading has every byte from before its own time and from before the
        // requests that it answers, except for awaited rows.
        let requests = self.box.readings.beginSweep()
        let metricsRequests = self.box.metrics.beginSweep()
        let end = time()
        try self.collect()
        // After the sockets, because new sockets may have a new address. Before the tick, because the tick decides the
        // scope of their bytes.
        self.refreshAddresses()
        self.absorb(end)
        var status = self.source.status
        let unwatched = self.resolver.unwatched
        if unwatched > 0 {
            status.blindSpots.append(
                "when \(unwatched) processes end, until the next look at them: no file descriptors are left to watch them"
            )
        }
        self.swept = (metricsRequests, status)
        let capture = self.ledger.withLosses(status)
        self.box.publish(checks: self.doctor.checks(loss: capture.loss))
        if self.box.readings.isAwaited {
            var reading = self.ledger.reading(
                countingSince: self.countingSince,
                host: self.host,
                daemon: self.daemon,
                capture: status
            )
            reading.snapshot.alertsActive = self.alerts.active
            self.box.readings.publish(reading, answering: requests, isTick: isTick)
        } else {
            self.box.readings.publishNothing()
        }
        if case .tick(let now, let boottime) = end {
            if self.alertFeed?.isDue(at: boottime) == true, let sample = self.alertFeed?.sample(&self.ledger) {
                self.alerts.add(sample)
            }
            // It may change, and history has it at once.
            self.host.timeZone = HostTime.zoneName
            if self.history?.feed.isDue(at: now) == true { try self.endMinute() }
            self.notification.alive()
        }
    }

    /// Writes a checkpoint if it is time, and then publishes what monitoring systems get.
    ///
    /// They get only what a checkpoint has. A daemon that is killed may find out less about a process that ended meanwhile
    /// than this one has. Without the checkpoint, the next daemon could then show a lower sum than this one did, and a
    /// monitoring system takes that for a new beginning.
    ///
    /// - Parameter rests: As in ``CheckpointKeeper/keep(_:of:rests:isLast:)``.
    /// - Returns: Whether the next daemon knows all this.
    @discardableResult
    private func keep(rests: Bool = true) throws(CaptureError) -> Bool {
        guard try self.checkpoints.keep(self.ledger, of: self.source, rests: rests) else { return false }
        guard let (requests, capture) = self.swept else { return true }
        let now = MonotonicClock.nanoseconds()
        guard self.metricsPace.isDue(isAsked: self.box.metrics.isAsked, at: now) else {
            if !self.metricsPace.isWanted(at: now) { self.box.metrics.publishNothing() }
            return true
        }
        let metrics = self.ledger.metrics(
            countingSince: self.countingSince,
            daemon: self.daemon,
            capture: capture
        )
        self.box.metrics.publish(metrics, answering: requests)
        return true
    }

    /// Hands what moved since the last minute to history. Before that comes a checkpoint: the next daemon must know what
    /// history has. While there can be none, the minute goes on.
    private func endMinute() throws(CaptureError) {
        guard self.history != nil else { return }
        if try self.keep(rests: false) { self.keepHistory() }
    }

    /// Hands a minute that is over to history.
    ///
    /// - Parameter isLast: No other follows, and nothing more will be found out.
    private func keepHistory(isLast: Bool = false) {
        guard let keeper = self.history?.keeper else { return }
        if isLast { self.ledger.decideAll() }
        let balance = self.ledger.balance(countingSince: self.countingSince)
        let isWritten = self.handed.map { keeper.mark == .at($0) } ?? false
        guard self.checkpoints.handOver(self.ledger, of: self.source, isWritten: isWritten),
            let minute = self.history?.feed.minute(balance, isLast: isLast)
        else { return }
        self.handed = HistoryMark(balance)
        keeper.add(minute)
        self.alerts.minuteEnded(minute.time)
    }

    private func watch(_ rules: [AlertRule]) {
        self.alerts.configure(rules)
        let asksContacts = rules.contains { $0.kind.reported == .newDestination }
        self.ledger.watchContacts(from: asksContacts ? self.localPorts : nil)
        let needsSamples = rules.contains { $0.kind.reported != .bytes }
        if !needsSamples {
            self.alertFeed = nil
        } else if self.alertFeed == nil {
            self.alertFeed = AlertFeed(self.ledger, countingSince: self.countingSince)
        }
    }

    /// A round of observations, and the reports that came before it.
    private func collect() throws(CaptureError) {
        // Before the sweep, so that the sweep counts all bytes that the reports describe.
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
            self.addressFault = nil
        } catch {
            // Bytes are counted nevertheless. Only the scope of some bytes may be shown as farther than it is.
            let fault = "\(error)"
            if fault != self.addressFault { self.logger.warning("can't read this host's addresses: \(fault)") }
            self.addressFault = fault
        }
    }

    private func absorb(_ event: CaptureEvent) {
        self.ledger.absorb(event)
        guard self.recorder != nil else { return }
        do {
            try self.recorder?.record(event)
        } catch {
            // Counting goes on. The record of events ends here.
            self.logger.error("recording stopped: \(error)")
            self.recorder = nil
        }
    }
}
