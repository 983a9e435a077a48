public import TrafficModel

/// All metrics of a daemon, as text for a scraper.
public struct MetricsDocument {
    private let reading: MetricsReading
    private let cost: MeasuredCost?
    private let process: OwnProcess?

    /// - Parameters:
    ///   - cost: The last measurement; `nil` before the first.
    ///   - process: The daemon itself.
    public init(_ reading: MetricsReading, cost: MeasuredCost? = nil, process: OwnProcess? = nil) {
        (self.reading, self.cost, self.process) = (reading, cost, process)
    }

    /// - Parameter hasCreated: Whether OpenMetrics has a line `_created` for each counter.
    public func encoded(as format: MetricsFormat, hasCreated: Bool = false) -> [UInt8] {
        let (host, series) = (self.reading.countingSince, self.reading.seriesSince)
        var writer = MetricsWriter(format, created: hasCreated ? series : nil)
        writer.add(self.reading.processes)
        for role in EndpointRole.allCases { writer.add(self.reading.endpoints, role) }
        writer.add(self.reading.interfaces)
        writer.add(self.reading.capture.reports)
        writer.countersBegan(at: host)
        if let host = self.reading.host { writer.add(host) }
        writer.add(self.reading.capture)
        writer.add(self.reading.capture.loss)
        if let cost { writer.add(cost) }
        writer.addCounts(self.reading)
        writer.add(self.reading.daemon)
        writer.countersBegan(at: self.reading.daemon.startedAt)
        if let process { writer.add(process) }
        writer.end()
        return writer.bytes
    }
}
