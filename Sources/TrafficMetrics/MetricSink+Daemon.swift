import TrafficDocuments
import TrafficLimits
import TrafficModel

extension MetricSink {
    mutating func add(_ capture: CaptureStatus) {
        self.family(.info("trafficd.capture", "How the daemon counts.")) {
            $0.add(["method": capture.method.rawValue], 1)
        }
        self.family(.gauge("trafficd.blind_spots", "Kinds of traffic that this way of counting can't see.")) {
            $0.add([:], UInt64(capture.blindSpots.count))
        }
    }

    mutating func add(_ loss: CaptureLoss) {
        let lost: KeyValuePairs = [
            "map_full": loss.mapFull, "records_malformed": loss.recordsMalformed,
            "counters_backwards": loss.countersBackwards, "missed_runs": loss.missedRuns,
        ]
        self.family(.counter("trafficd.capture.lost", "Events whose bytes are in no sum, by the reason.")) { lines in
            for (reason, count) in lost { lines.add(["reason": reason], count) }
        }
        let late: KeyValuePairs = [
            "ring_full": loss.ringFull, "sockets_folded": loss.socketsFolded, "calls_folded": loss.callsFolded,
            "reads_failed": loss.readsFailed,
        ]
        self.family(
            .counter("trafficd.capture.degraded", "Events whose bytes came late or with fewer details, by the reason.")
        ) { lines in
            for (reason, count) in late { lines.add(["reason": reason], count) }
        }
        self.family(.counter("trafficd.uncounted", in: .seconds, "Time in which nothing was counted.")) {
            $0.add([:], real: Double(loss.uncountedNanoseconds) / 1e9)
        }
    }

    mutating func add(_ reports: ReportCounters) {
        self.family(.counter("trafficd.report.datagrams", "Datagrams that programs sent to the report socket.")) {
            $0.add([:], reports.datagrams)
        }
        self.family(.counter("trafficd.report.datagrams_missing", "Datagrams whose numbers never came.")) {
            $0.add([:], reports.missingDatagrams)
        }
        self.family(.counter("trafficd.report.records", "Records in those datagrams.")) {
            $0.add([:], reports.records)
        }
        self.family(.counter("trafficd.report.claims", "Claims that count, by how their bytes are known.")) {
            $0.add(["quality": JoinQuality.exact.rawValue], reports.joined)
            $0.add(["quality": JoinQuality.inferred.rawValue], reports.inferred)
        }
        self.family(.counter("trafficd.report.records_in_other", "Records that count in a row _other.")) {
            $0.add([:], reports.inOther)
        }
        self.family(
            .counter("trafficd.report.datagrams_rejected", "Datagrams that are no reports, by the reason.")
        ) {
            $0.add(["reason": "malformed_datagrams"], reports.malformedDatagrams)
            $0.add(["reason": "unknown_version"], reports.unknownVersion)
        }
        self.family(.counter("trafficd.report.records_rejected", "Records that count nowhere, by the reason.")) {
            lines in
            let reasons: KeyValuePairs = [
                "malformed_records": reports.malformedRecords, "unknown_process": reports.unknownProcess,
                "foreign": reports.foreign, "late": reports.late, "duplicate": reports.duplicate,
                "overlapping": reports.overlapping, "impossible": reports.impossible,
            ]
            for (reason, count) in reasons { lines.add(["reason": reason], count) }
        }
        self.family(.counter("trafficd.report.datagrams_dropped", "Datagrams for which the daemon had no room.")) {
            $0.add([:], reports.droppedDatagrams)
        }
        self.family(.counter("trafficd.report.records_dropped", "Records that senders dropped.")) {
            $0.add([:], reports.droppedBySenders)
        }
    }

    mutating func add(_ measured: MeasuredCost) {
        self.family(
            .gauge(
                "trafficd.bpf.program.cpu",
                in: .ratio,
                "Time of a program in the kernel, of one processor, at the last measurement."
            )
        ) {
            for program in measured.cost.programs { $0.add(program.labels, real: program.cpuPercent / 100) }
        }
        self.family(
            .gauge(
                "trafficd.bpf.program.run_mean",
                in: .seconds,
                "Time of one call of a program in the kernel."
            )
        ) {
            for program in measured.cost.programs {
                if let time = program.nanosecondsPerCall { $0.add(program.labels, real: time / 1e9) }
            }
        }
        self.time(
            "trafficd.bpf.cost_measured_timestamp",
            "When the cost of the programs in the kernel was measured",
            measured.at
        )
    }

    private mutating func time(_ name: String, _ help: String, _ time: Timestamp) {
        self.family(.gauge(name, in: .seconds, "\(help): seconds since 1970.")) { $0.add([:], time: time) }
    }

    mutating func addCounts(_ reading: MetricsReading) {
        let counts: KeyValuePairs = [
            "process": (reading.processes.series.count, SeriesLimits.processes),
            "endpoint": (reading.endpoints.series.count, SeriesLimits.endpoints),
            "interface": (reading.interfaces.series.count, SeriesLimits.interfaces),
        ]
        self.family(.gauge("trafficd.series.names", "Names that have series of their own.")) { lines in
            for (kind, count) in counts { lines.add(["kind": kind], UInt64(count.0)) }
        }
        self.family(.gauge("trafficd.series.names_limit", "The most names that get series of their own.")) { lines in
            for (kind, count) in counts { lines.add(["kind": kind], UInt64(count.1)) }
        }
        self.time(
            "trafficd.counting_start_timestamp",
            "When all sums of the host were 0",
            reading.countingSince
        )
        self.time(
            "trafficd.series_start_timestamp",
            "When all sums of processes, endpoints and interfaces were 0",
            reading.seriesSince
        )
        self.time("trafficd.reading_timestamp", "Of when this reading is", reading.takenAt)
    }

    mutating func add(_ daemon: DaemonDescription) {
        self.family(.info("trafficd.build", "The version of the daemon.")) { $0.add(["version": daemon.version], 1) }
        self.time("process.start_time", "When the daemon started", daemon.startedAt)
    }

    mutating func add(_ push: [PushStatus]) {
        self.family(.counter("trafficd.push.requests", "Requests to receivers of metrics, by what came of them.")) {
            for status in push {
                $0.add(status.labels.with("outcome", "delivered"), status.delivered)
                $0.add(status.labels.with("outcome", "failed"), status.failed)
                $0.add(status.labels.with("outcome", "refused"), status.refused)
            }
        }
        self.family(
            .counter("trafficd.push.requests_dropped", "Requests that were deleted before a receiver took them.")
        ) {
            for status in push { $0.add(status.labels, status.dropped) }
        }
        self.family(.counter("trafficd.push.points_rejected", "Points that receivers left out.")) {
            for status in push { $0.add(status.labels, status.rejectedPoints) }
        }
        self.family(.gauge("trafficd.push.requests_waiting", "Requests that receivers did not take yet.")) {
            for status in push { $0.add(status.labels, status.waiting) }
        }
        self.family(
            .gauge(
                "trafficd.push.last_delivery_timestamp",
                in: .seconds,
                "When a receiver last took a request: seconds since 1970."
            )
        ) {
            for status in push { if let time = status.lastDelivery { $0.add(status.labels, time: time) } }
        }
    }

    /// With the names that the client libraries of Prometheus have.
    mutating func add(_ process: OwnProcess) {
        self.family(.counter("process.cpu", in: .seconds, "Processor time of the daemon.")) {
            $0.add([:], real: process.cpuSeconds)
        }
        self.family(.gauge("process.resident_memory", in: .bytes, "Memory of the daemon.")) {
            if let bytes = process.residentBytes { $0.add([:], bytes) }
        }
        self.family(.gauge("process.open_fds", "File descriptors of the daemon.")) {
            if let count = process.openDescriptors { $0.add([:], count) }
        }
        self.family(.gauge("process.max_fds", "The most file descriptors that the daemon may have.")) {
            $0.add([:], process.descriptorLimit)
        }
    }
}

extension PushStatus {
    fileprivate var labels: MetricLabels { ["push.destination": self.destination] }
}

extension CaptureCost.Program {
    fileprivate var labels: MetricLabels { ["program": self.name, "hook": self.hook] }
}
