import TrafficModel

// The names of metrics follow OpenTelemetry's semantic conventions 1.44. What the conventions do not have begins with
// `trafficd.`.

/// The attribute `network.io.direction`.
private enum Direction {
    static let sent = "transmit"
    static let received = "receive"
}

extension MetricSink {
    fileprivate mutating func add(_ labels: MetricLabels, sent: UInt64?, received: UInt64?) {
        if let sent { self.add(labels.with("network.io.direction", Direction.sent), sent) }
        if let received { self.add(labels.with("network.io.direction", Direction.received), received) }
    }
}

extension MetricLabels {
    fileprivate init(_ process: ProcessSeries) {
        let labels: MetricLabels = [
            "process.executable.name": process.name,
            "process.executable.path": process.executable,
            "process.real_user.id": process.uid.map { "\($0)" } ?? "",
            "systemd.unit": process.systemdUnit,
        ]
        self = labels.asResource()
    }

    fileprivate init(_ endpoint: EndpointSeries) {
        self.init(endpoint.process)
        self.add("server.address", endpoint.host)
        self.add(endpoint.role == .client ? "url.template" : "http.route", endpoint.route)
    }

    fileprivate init(_ overflow: MetricsReading.Overflow) {
        let user: MetricLabels = ["process.real_user.id": overflow.user.map { "\($0)" } ?? ""]
        self = user.asResource().with("otel.metric.overflow", "true")
    }
}

extension MetricsReading.Sums {
    /// All series, and then the overflows: those of users by the user's number, and then that of several.
    fileprivate func labelled(_ labels: (Name) -> MetricLabels) -> [(labels: MetricLabels, value: Value)] {
        self.series.map { (labels($0.name), $0.value) }
            + self.overflow.sorted { ($0.key.user ?? .max) < ($1.key.user ?? .max) }
            .map { (MetricLabels($0.key), $0.value) }
    }
}

extension MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts> {
    fileprivate func of(_ role: EndpointRole) -> Self {
        Self(
            series: self.series.filter { $0.name.role == role },
            overflow: self.overflow.filter { $0.key.role == role }
        )
    }
}

extension MetricSink {
    mutating func add(_ sums: MetricsReading.Sums<ProcessSeries, ByteCounts>) {
        let series = sums.labelled { MetricLabels($0) }
        self.family(
            .counter("process.network.io", in: .bytes, "Payload that processes moved through sockets.")
        ) { lines in
            for (labels, bytes) in series {
                lines.add(labels, sent: bytes.payload.sent, received: bytes.payload.received)
            }
        }
        self.family(
            .counter(
                "trafficd.process.wire",
                in: .bytes,
                "IP packets of the sockets of processes, with headers and retransmissions."
            )
        ) { lines in
            for (labels, bytes) in series { lines.add(labels, sent: bytes.wireSent, received: bytes.wireReceived) }
        }
        self.family(
            .counter(
                "trafficd.process.wire.estimated",
                in: .bytes,
                "Wire bytes of processes, in both directions, that are estimated."
            )
        ) { lines in
            for (labels, bytes) in series where bytes.wireEstimated > 0 { lines.add(labels, bytes.wireEstimated) }
        }
        self.family(
            .counter("trafficd.process.retransmitted", in: .bytes, "Payload that TCP sent again.")
        ) { lines in
            for (labels, bytes) in series { if let again = bytes.retransmitted { lines.add(labels, again) } }
        }
    }

    mutating func add(_ sums: MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts>, _ role: EndpointRole) {
        let series = sums.of(role).labelled { MetricLabels($0) }
        let name = "http.\(role.rawValue)"
        self.family(
            .histogram(
                "\(name).request.duration",
                in: .seconds,
                "Duration of HTTP exchanges that ended, as reported by programs."
            )
        ) { lines in
            for (labels, counts) in series { lines.add(labels, counts.durations) }
        }
        if Self.hasBodySizes {
            self.family(.histogram("\(name).request.body.size", in: .bytes, "Bodies of HTTP requests, as sent.")) {
                for (labels, counts) in series { $0.add(labels, counts.requestBodies) }
            }
            self.family(.histogram("\(name).response.body.size", in: .bytes, "Bodies of HTTP responses, as sent.")) {
                for (labels, counts) in series { $0.add(labels, counts.responseBodies) }
            }
        }
        self.family(.counter("trafficd.\(name).requests", "HTTP requests, with those that have no response yet.")) {
            for (labels, counts) in series { $0.add(labels, counts.counts.requests) }
        }
        self.family(.counter("trafficd.\(name).failures", "HTTP exchanges that failed, or ended with 4xx or 5xx.")) {
            for (labels, counts) in series { $0.add(labels, counts.counts.failures) }
        }
        self.family(
            .counter("trafficd.\(name).repeated_responses", "Responses with the status and length of the one before.")
        ) {
            for (labels, counts) in series { $0.add(labels, counts.counts.repeated) }
        }
        self.family(
            .counter("trafficd.\(name).message", in: .bytes, "HTTP messages: head, framing and body.")
        ) {
            for (labels, counts) in series {
                $0.add(labels, sent: counts.counts.sent.message, received: counts.counts.received.message)
            }
        }
        self.family(.counter("trafficd.\(name).body", in: .bytes, "The bodies of HTTP messages.")) {
            for (labels, counts) in series {
                $0.add(labels, sent: counts.counts.sent.body, received: counts.counts.received.body)
            }
        }
    }

    mutating func add(_ host: MetricsReading.HostSums) {
        self.family(.counter("trafficd.payload", in: .bytes, "Payload of all sockets.")) {
            $0.add([:], sent: host.bytes.payload.sent, received: host.bytes.payload.received)
        }
        self.family(.counter("trafficd.wire", in: .bytes, "IP packets of all sockets, and of the kernel.")) {
            $0.add([:], sent: host.bytes.wireSent, received: host.bytes.wireReceived)
        }
        self.family(
            .counter(
                "trafficd.wire.estimated",
                in: .bytes,
                "Wire bytes of the host, in both directions, that are estimated."
            )
        ) {
            if host.bytes.wireSent != nil { $0.add([:], host.bytes.wireEstimated) }
        }
        self.family(.counter("trafficd.retransmitted", in: .bytes, "Payload that TCP sent again.")) {
            if let again = host.bytes.retransmitted { $0.add([:], again) }
        }
        self.add(host.byScope, of: "scope", "by how far the other end is")
        self.add(host.byClass, of: "class", "by the configured class of the other end's address")
    }

    private mutating func add(_ sums: [String: ByteCounts], of label: String, _ help: String) {
        let series = sums.sorted { $0.key < $1.key }.map { ([label: $0.key] as MetricLabels, $0.value) }
        self.family(.counter("trafficd.\(label).payload", in: .bytes, "Payload \(help).")) {
            for (labels, bytes) in series { $0.add(labels, sent: bytes.payload.sent, received: bytes.payload.received) }
        }
        self.family(.counter("trafficd.\(label).wire", in: .bytes, "IP packets \(help).")) {
            for (labels, bytes) in series { $0.add(labels, sent: bytes.wireSent, received: bytes.wireReceived) }
        }
    }

    mutating func add(_ sums: MetricsReading.Sums<String, InterfaceCounts>) {
        let series = sums.labelled { ["network.interface.name": $0] }
        self.family(
            .counter("system.network.io", in: .bytes, "Bytes that interfaces count themselves.")
        ) {
            for (labels, counts) in series { $0.add(labels, sent: counts.sentBytes, received: counts.receivedBytes) }
        }
        self.family(.counter("system.network.packet.count", in: .packets, "Packets that interfaces count themselves."))
        {
            for (labels, counts) in series {
                $0.add(labels, sent: counts.sentPackets, received: counts.receivedPackets)
            }
        }
    }
}
