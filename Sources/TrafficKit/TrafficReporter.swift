package import TrafficReport

/// One connection's access to a monitor, for the thread of its event loop.
///
/// A connection asks for a name and reports with every exchange. To ask the monitor takes a lock and counts references
/// that all threads of a server share. These threads then take turns, which costs more than the exchange's records. So
/// the reporter keeps copies.
package final class TrafficReporter: ExchangeNaming {
    private struct Known {
        var running: TrafficMonitor.Running?
        var gatherer: RecordGatherer?
        var changes: UInt = 0
    }

    private let monitor: TrafficMonitor
    private let role: Report.Role
    private var known = Known()
    /// The last request, its answer and its name, because connections repeat the same request. `nil`: no request that
    /// may stay.
    private var lastRequest: MessageHead.Request?
    private var lastAnswer = RouteAnswer.path
    private var lastName: Report.Name?
    private var names = KnownNames()
    /// Numbers for exchanges of this connection.
    private var numbers: Range<UInt64> = 0..<0
    private static let numbersAtATime: UInt64 = 64
    /// Runs that have stopped. To release a run releases the app's observers, whose code may do anything. So the
    /// reporter releases runs only when its own work is done.
    private var retired: [TrafficMonitor.Running] = []

    /// - Parameter role: The names of a server are bounded, because clients choose them.
    package init(_ monitor: TrafficMonitor, role: Report.Role) {
        (self.monitor, self.role) = (monitor, role)
    }

    @inline(__always)
    private func refresh() {
        if self.monitor.changes != self.known.changes { self.renew() }
    }

    private func renew() {
        if let running = self.known.running { self.retired.append(running) }
        let (running, changes) = self.monitor.current
        self.known = Known(running: running, gatherer: running?.sender.gathererOfThread(), changes: changes)
        (self.lastRequest, self.lastName) = (nil, nil)
        self.names = KnownNames()
    }

    /// As ``TrafficMonitor/hasListener``.
    package var hasListener: Bool {
        self.refresh()
        return self.known.running?.hasListener ?? false
    }

    package func makeExchange() -> UInt64 {
        if self.numbers.isEmpty { self.numbers = TrafficMonitor.makeExchanges(Self.numbersAtATime) }
        let number = self.numbers.lowerBound
        self.numbers = number + 1..<self.numbers.upperBound
        return number
    }

    package func admits(_ request: MessageHead.Request) -> Bool {
        self.refresh()
        return self.known.running?.admits(request) ?? false
    }

    /// As ``TrafficMonitor/name(method:host:target:template:role:)``.
    package func name(of request: MessageHead.Request, _ answer: RouteAnswer = .path) -> Report.Name? {
        self.refresh()
        if self.lastRequest == request, self.lastAnswer == answer { return self.lastName }
        guard let running = self.known.running else { return nil }
        let (name, isLasting) = self.makeName(of: request, answer, running)
        self.lastRequest = isLasting && request.mayStay ? request : nil
        (self.lastAnswer, self.lastName) = (answer, name)
        return name
    }

    /// - Returns: `isLasting`: the request has the same name the next time.
    private func makeName(
        of request: MessageHead.Request,
        _ answer: RouteAnswer,
        _ running: TrafficMonitor.Running
    ) -> (name: Report.Name?, isLasting: Bool) {
        guard let route = running.route(of: request, answer) else { return (nil, true) }
        if let known = self.names.name(of: request, route: route.text) { return (known, true) }
        var (name, isLasting) = running.name(of: request, route, self.role)
        if isLasting, KnownNames.mayStay(request, route: route.text) {
            name = running.share(name)
            self.names.keep(name, of: request)
        }
        return (name, isLasting)
    }

    /// As ``TrafficMonitor/report(_:)``, the exchanges first. May run code of the app.
    package func report(_ batch: borrowing RecordBatch) {
        guard !batch.isEmpty else { return }
        self.refresh()
        self.known.running?.report(batch, by: self.known.gatherer)
        guard !self.retired.isEmpty else { return }
        // Moved out of the reporter before they are released.
        var gone: [TrafficMonitor.Running] = []
        swap(&gone, &self.retired)
    }

    /// Reports if no code of the app can run meanwhile: no observer, and no release of a run that ended. So the caller
    /// may be in the middle of its own work.
    ///
    /// - Returns: Whether the records are reported. If not, call ``report(_:)`` after that work.
    package func reportIfUnobserved(_ batch: borrowing RecordBatch) -> Bool {
        self.refresh()
        guard let running = self.known.running, !running.hasObservers, self.retired.isEmpty else { return false }
        running.sender.send(batch, by: self.known.gatherer)
        return true
    }
}
