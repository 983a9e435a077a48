package import TrafficReport

/// One connection's way to a monitor, for one thread at a time.
///
/// A connection asks for a name and reports with every exchange. To ask the monitor takes a lock and counts references that all threads of a
/// server share: that they take turns costs more than the exchange's records.
package final class TrafficReporter: ExchangeNaming {
    private let monitor: TrafficMonitor
    private var known: (running: TrafficMonitor.Running?, changes: UInt) = (nil, 0)
    /// Connections ask for the same again and again.
    private var last: (request: HTTP1Head.Request, name: Report.Name?)?
    private var routed = RoutedNames()

    package init(_ monitor: TrafficMonitor) {
        self.monitor = monitor
    }

    private func refresh() {
        guard self.monitor.changes != self.known.changes else { return }
        self.known = self.monitor.current
        self.last = nil
        self.routed = RoutedNames()
    }

    package func makeExchange() -> UInt64 { self.monitor.makeExchange() }

    package func admits(_ request: HTTP1Head.Request) -> Bool {
        self.refresh()
        return self.known.running?.admits(request) ?? false
    }

    /// As ``TrafficMonitor/name(method:host:target:template:)``.
    package func name(of request: HTTP1Head.Request, template: String? = nil) -> Report.Name? {
        self.refresh()
        if let template {
            let running = self.known.running
            return self.routed.name(of: request, template) { running?.name(of: request, template: template) }
        }
        if let last, last.request == request { return last.name }
        let name = self.known.running?.name(of: request)
        self.last = (request, name)
        return name
    }

    /// As ``TrafficMonitor/report(_:)``, in their order.
    package func report(_ records: [Report.Record]) {
        guard !records.isEmpty else { return }
        self.refresh()
        self.known.running?.report(records)
    }
}
