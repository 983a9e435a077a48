import CLinux
import Glibc
import Synchronization
import TrafficModel

/// Decides the next step: drain when the kernel asks for a drain, sweep once per interval, stop when told.
public final class CapturePace {
    public enum Step: Hashable, Sendable {
        case drain, sweep
        /// Reports should be taken before the next sweep.
        case collect
        /// A request waits for a sweep that begins now.
        case look
        case stop
    }

    /// The least time from the beginning of a round to the beginning of an extra round, in nanoseconds. An extra round
    /// is a round for reports or requests. So there are ten extra rounds a second at most, however many reports and
    /// requests come. An extra round also waits half as long as the last round took, so extra rounds take two thirds of
    /// a processor at most.
    package static let extraRoundSpacing: UInt64 = 100_000_000

    private let epoll: OwnedDescriptor
    private let stopper: Stopper
    private let reportsDescriptor: Int32?
    private let demand: SweepDemand?
    private var intervalNanoseconds: UInt64
    private let clock: () -> UInt64
    private var nextSweep: UInt64
    /// When the present round began; `nil` between rounds.
    private var roundBeganAt: UInt64?
    private var nextExtraRound: UInt64 = 0
    /// Reports wait for an extra round.
    private var isCollectDue = false
    /// Requests wait for an extra round.
    private var isLookDue = false
    /// Least time between two drains. This and the size of the ring limit the work that a flood of closing sockets can
    /// cause.
    private static let drainSpacingNanoseconds: UInt64 = 20_000_000
    private var nextDrain: UInt64 = 0
    private var isDrainDue = false

    /// - Parameters:
    ///   - wakeDescriptor: Becomes readable when the kernel asks for a drain.
    ///   - reportsDescriptor: Becomes readable when reports should not wait for the next sweep.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` from epoll(7).
    public convenience init(
        wakeDescriptor: Int32?,
        stopper: Stopper,
        reportsDescriptor: Int32? = nil,
        demand: SweepDemand? = nil,
        interval: Duration
    ) throws(CaptureError) {
        try self.init(
            wakeDescriptor: wakeDescriptor,
            stopper: stopper,
            reportsDescriptor: reportsDescriptor,
            demand: demand,
            interval: interval,
            clock: MonotonicClock.nanoseconds
        )
    }

    /// - Parameter clock: Nanoseconds.
    package init(
        wakeDescriptor: Int32?,
        stopper: Stopper,
        reportsDescriptor: Int32? = nil,
        demand: SweepDemand? = nil,
        interval: Duration,
        clock: @escaping () -> UInt64
    ) throws(CaptureError) {
        self.epoll = OwnedDescriptor(owning: try check("epoll_create1") { epoll_create1(Int32(EPOLL_CLOEXEC)) })
        self.stopper = stopper
        self.reportsDescriptor = reportsDescriptor
        self.demand = demand
        self.intervalNanoseconds = interval.nanoseconds
        self.clock = clock
        self.nextSweep = clock() + self.intervalNanoseconds
        try self.watch(stopper.descriptor, events: EPOLLIN.rawValue)
        if let wakeDescriptor {
            // Edge-triggered: the ring is readable whenever it has a record, but the daemon should wake up only when
            // the kernel asks.
            try self.watch(wakeDescriptor, events: EPOLLIN.rawValue | EPOLLET.rawValue)
        }
        if let reportsDescriptor { try self.watch(reportsDescriptor, events: EPOLLIN.rawValue | EPOLLET.rawValue) }
        if let demand { try self.watch(demand.descriptor, events: EPOLLIN.rawValue | EPOLLET.rawValue) }
    }

    private func watch(_ descriptor: Int32, events: UInt32) throws(CaptureError) {
        var event = epoll_event()
        event.events = events
        event.data.fd = descriptor
        try check("epoll_ctl", "add") { epoll_ctl(self.epoll.descriptor, EPOLL_CTL_ADD, descriptor, &event) }
    }

    /// The next sweep is due an interval of this length from now, or when it was due before, whichever is sooner.
    public func change(interval: Duration) {
        self.intervalNanoseconds = interval.nanoseconds
        self.nextSweep = min(self.nextSweep, self.clock() + self.intervalNanoseconds)
    }

    /// Sleeps until there is something to do.
    public func next() -> Step {
        self.endRound(at: self.clock())
        var events = [epoll_event](repeating: epoll_event(), count: 4)
        // First check for events without waiting. If each round takes as long as the interval, a sweep is always due,
        // and the stopper must work even then.
        var milliseconds: Int32 = 0
        while true {
            let count = epoll_wait(self.epoll.descriptor, &events, Int32(events.count), milliseconds)
            // No descriptors: the time is over, or there was a signal.
            let descriptors = events.prefix(Int(max(count, 0))).map(\.data.fd)
            if descriptors.contains(self.stopper.descriptor) { return .stop }
            self.note(descriptors)
            let now = self.clock()
            if let step = self.due(at: now) { return step }
            var next = self.nextSweep
            if self.isCollectDue || self.isLookDue { next = min(next, self.nextExtraRound) }
            if self.isDrainDue { next = min(next, self.nextDrain) }
            milliseconds = Int32(clamping: (next - now + 999_999) / 1_000_000)
        }
    }

    private func due(at now: UInt64) -> Step? {
        // A clock reading far in the future, as emulated machines sometimes give, must not stop the sweeps until that
        // time.
        self.nextSweep = min(self.nextSweep, now + self.intervalNanoseconds)
        if now >= self.nextSweep {
            // After a long stop (suspend, SIGSTOP) one sweep replaces all missed sweeps.
            self.nextSweep = max(self.nextSweep + self.intervalNanoseconds, now)
            return self.beginRound(.sweep, at: now)
        }
        if self.isCollectDue || self.isLookDue, now >= self.nextExtraRound {
            return self.beginRound(self.isLookDue ? .look : .collect, at: now)
        }
        self.nextDrain = min(self.nextDrain, now + Self.drainSpacingNanoseconds)
        guard self.isDrainDue && now >= self.nextDrain else { return nil }
        self.isDrainDue = false
        self.nextDrain = now + Self.drainSpacingNanoseconds
        return .drain
    }

    private func note(_ descriptors: [Int32]) {
        for descriptor in descriptors {
            switch descriptor {
            case self.reportsDescriptor: self.isCollectDue = true
            case self.demand?.descriptor: self.isLookDue = true
            default: self.isDrainDue = true
            }
        }
    }

    private func beginRound(_ step: Step, at now: UInt64) -> Step {
        // Every round takes the reports that are there. A sweep or a look also answers every request that came before
        // the round.
        (self.roundBeganAt, self.isCollectDue) = (now, false)
        if step != .collect { self.isLookDue = false }
        return step
    }

    private func endRound(at now: UInt64) {
        guard let began = self.roundBeganAt.take() else { return }
        let duration = now - min(now, began)
        self.nextExtraRound = began + max(Self.extraRoundSpacing, 3 * min(duration, self.intervalNanoseconds) / 2)
    }
}

/// Asks a ``CapturePace`` for a sweep soon, from any thread. Requests that come meanwhile share the sweep.
public final class SweepDemand: Sendable {
    private let event: OwnedDescriptor

    public init() throws(CaptureError) {
        self.event = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    var descriptor: Int32 { self.event.descriptor }

    public func ask() {
        _ = eventfd_write(self.event.descriptor, 1)
    }
}

/// Ends a ``CapturePace`` from any thread. This can't be undone.
public final class Stopper: Sendable {
    private let event: OwnedDescriptor

    public init() throws(CaptureError) {
        self.event = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    var descriptor: Int32 { self.event.descriptor }

    public func stop() {
        _ = eventfd_write(self.event.descriptor, 1)
    }
}
