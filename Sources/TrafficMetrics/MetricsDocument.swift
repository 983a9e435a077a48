public import TrafficDocuments
public import TrafficModel

/// All metrics of a daemon.
public struct MetricsDocument {
    private let reading: MetricsReading
    private let cost: MeasuredCost?
    private let process: OwnProcess?
    private let push: [PushStatus]

    /// - Parameters:
    ///   - cost: The last measurement; `nil` before the first.
    ///   - process: The daemon itself.
    ///   - push: How the deliveries to receivers go.
    public init(
        _ reading: MetricsReading,
        cost: MeasuredCost? = nil,
        process: OwnProcess? = nil,
        push: [PushStatus] = []
    ) {
        (self.reading, self.cost, self.process, self.push) = (reading, cost, process, push)
    }

    /// - Parameter hasCreated: Whether OpenMetrics has a line `_created` for each counter.
    public func encoded(as format: MetricsFormat, hasCreated: Bool = false) -> [UInt8] {
        var text = MetricsText(format, hasCreated: hasCreated)
        self.write(to: &text)
        text.end()
        return text.bytes
    }

    /// The only list of all metrics, for every format.
    package func write(to sink: inout some MetricSink) {
        sink.countersBegan(at: self.reading.seriesSince)
        sink.add(self.reading.processes)
        for role in EndpointRole.allCases { sink.add(self.reading.endpoints, role) }
        sink.add(self.reading.interfaces)
        sink.add(self.reading.capture.reports)
        sink.countersBegan(at: self.reading.countingSince)
        if let host = self.reading.host { sink.add(host) }
        sink.add(self.reading.capture)
        sink.add(self.reading.capture.loss)
        if let cost { sink.add(cost) }
        sink.addCounts(self.reading)
        sink.add(self.reading.daemon)
        sink.countersBegan(at: self.reading.daemon.startedAt)
        sink.add(self.push)
        if let process { sink.add(process) }
    }
}
