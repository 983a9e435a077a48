package import TrafficReport

/// One connection's access to a monitor, for one thread at a time.
///
/// A connection asks for a name and reports with every exchange. To ask the monitor takes a lock and counts references
/// that all threads of a server share. These threads then take turns, which costs more than the exchange's records. So
/// the reporter keeps copies.
package final class TrafficReporter: ExchangeNaming {
    private let monitor: TrafficMonitor
    private let role: Report.Role
    private var known: (running: TrafficMonitor.Running?, changes: UInt) = (nil, 0)
    /// The last request and its name, because connections repeat the same request.
    private var last: (request: MessageHead.Request, name: Report.Name?)?
    private var names = KnownNames()
    /// Runs that have stopped. To release a run releases the app's observers, whose code may do anything. So the
    /// reporter releases runs only when its own work is done.
    private var retired: [TrafficMonitor.Running] = []

    /// - Parameter role: The names of a server are bounded, because clients choose them.
    package init(_ monitor: TrafficMonitor, role: Report.Role) {
        (self.monitor, self.role) = (monitor, role)
    }

    private func refresh() {
        guard self.monitor.changes != self.known.changes else { return }
        if let running = self.known.running { self.retired.append(running) }
        self.known = self.monitor.current
        self.last = nil
        self.names = KnownNames()
    }

    /// As ``TrafficMonitor/hasListener``.
    package var hasListener: Bool {
        self.refresh()
        return self.known.running?.hasListener ?? false
    }

    package func makeExchange() -> UInt64 { self.monitor.makeExchange() }

    package func admits(_ request: MessageHead.Request) -> Bool {
        self.refresh()
        return self.known.running?.admits(request) ?? false
    }

    /// As ``TrafficMonitor/name(method:host:target:template:role:)``.
    package func name(of request: MessageHead.Request, _ answer: RouteAnswer = .path) -> Report.Name? {
        self.refresh()
        guard let running = self.known.running else { return nil }
        if answer == .path, let last, last.request == request { return last.name }
        var isLasting = true
        var name: Report.Name?
        if let route = running.route(of: request, answer) {
            name = self.names.name(of: request, route: route.text) {
                let made = running.name(of: request, route, self.role)
                isLasting = made.isLasting
                return made
            }
        }
        if answer == .path { self.last = isLasting && request.mayStay ? (request, name) : nil }
        return name
    }

    /// As ``TrafficMonitor/report(_:)``, in the order of `records`.
    package func report(_ records: [Report.Record]) {
        guard !records.isEmpty else { return }
        self.refresh()
        self.known.running?.report(records)
        guard !self.retired.isEmpty else { return }
        // Moved out of the reporter before they are released.
        var gone: [TrafficMonitor.Running] = []
        swap(&gone, &self.retired)
    }
}
