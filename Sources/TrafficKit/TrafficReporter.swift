package import TrafficReport

/// One connection's way to a monitor, for one thread at a time.
///
/// A connection asks for a name and reports with every exchange. To ask the monitor takes a lock and counts references that all threads of a
/// server share: that they take turns costs more than the exchange's records.
package final class TrafficReporter {
    private let monitor: TrafficMonitor
    private var known: (running: TrafficMonitor.Running?, changes: UInt) = (nil, 0)
    /// Connections ask for the same again and again.
    private var last: (host: String, target: String, name: (host: String, route: String)?)?

    package init(_ monitor: TrafficMonitor) {
        self.monitor = monitor
    }

    private func refresh() {
        guard self.monitor.changes != self.known.changes else { return }
        self.known = self.monitor.current
        self.last = nil
    }

    package func makeExchange() -> UInt64 { self.monitor.makeExchange() }

    /// As ``TrafficMonitor/name(host:target:template:)``.
    package func name(host: String, target: String) -> (host: String, route: String)? {
        self.refresh()
        if let last, last.target == target, last.host == host { return last.name }
        let name = self.known.running?.name(host: host, target: target, template: nil)
        self.last = NameCache.keeps(host, target) ? (host, target, name) : nil
        return name
    }

    /// As ``TrafficMonitor/report(_:)``, in their order.
    package func report(_ records: [Report.Record]) {
        guard !records.isEmpty else { return }
        self.refresh()
        self.known.running?.report(records)
    }
}
