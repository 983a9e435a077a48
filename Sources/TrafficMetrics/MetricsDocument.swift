public import TrafficModel

/// All metrics of a daemon, as text for a scraper.
public struct MetricsDocument {
    private let reading: MetricsReading
    private let cost: MeasuredCost?
    private let process: OwnProcess?

    /// - Parameters:
    ///   - cost: The last measurement; `nil` before the first, and for readers who may not see it.
    ///   - process: The daemon itself.
    public init(_ reading: MetricsReading, cost: MeasuredCost? = nil, process: OwnProcess? = nil) {
        (self.reading, self.cost, self.process) = (reading, cost, process)
    }

    /// - Parameter hasCreated: Whether OpenMetrics has a line `_created` for each counter.
    public func encoded(as format: MetricsFormat, hasCreated: Bool = false) -> [UInt8] {
        var writer = MetricsWriter(format, created: hasCreated ? self.reading.countingSince : nil)
        writer.add(self.reading.processes)
        for role in EndpointRole.allCases { writer.add(self.reading.endpoints, role) }
        if let host = self.reading.host { writer.add(host) }
        writer.add(self.reading.interfaces)
        writer.add(self.reading.capture)
        writer.add(self.reading.capture.loss)
        writer.add(self.reading.capture.reports)
        if let cost { writer.add(cost) }
        writer.addCounts(self.reading)
        writer.add(self.reading.daemon)
        if let process { writer.add(process) }
        writer.end()
        return writer.bytes
    }
}
