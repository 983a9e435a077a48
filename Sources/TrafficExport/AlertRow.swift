public import TrafficDocuments
import TrafficModel

extension AlertReport: ListDocument {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.text(CodingKeys.host, self.host)
            writer.time(CodingKeys.takenAt, self.takenAt)
            writer.number(CodingKeys.rules, self.rules)
            writer.rows(CodingKeys.alerts, self.alerts)
        }
        return writer.bytes
    }

    /// One JSON object per alert.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        for alert in self.alerts {
            writer.object { alert.write(to: &$0) }
            writer.lineFeed()
        }
        return writer.bytes
    }

    /// RFC 4180 with a header line and stable columns: the fields of an alert of ``json()``. Those of its process have names
    /// such as `process_name`.
    package func delimited(_ dialect: DelimitedWriter.Dialect) -> [UInt8] {
        var writer = DelimitedWriter(dialect)
        writer.lines(of: self.alerts, header: .blank, context: nil)
        return writer.bytes
    }

    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.AlertReport_schema_json }
}

extension Alert: Row {
    fileprivate static var blank: Self {
        Self(rule: "", kind: .rate, since: Timestamp(nanosecondsSinceEpoch: 0))
    }

    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.rule, self.rule)
        sink.word(CodingKeys.kind, self.kind)
        sink.text(CodingKeys.match, self.match)
        sink.optional(CodingKeys.process, self.process, blank: ProcessGroup(name: ""))
        sink.text(CodingKeys.user, self.user)
        sink.word(CodingKeys.role, self.role)
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.route, self.route)
        sink.text(CodingKeys.destination, self.destination)
        sink.time(CodingKeys.since, self.since)
        sink.number(CodingKeys.bytes, self.bytes)
        sink.number(CodingKeys.bytesPerSecond, self.bytesPerSecond)
        sink.number(CodingKeys.requestsPerSecond, self.requestsPerSecond)
        sink.number(CodingKeys.pastRequestsPerSecond, self.pastRequestsPerSecond)
        sink.number(CodingKeys.failedShare, self.failedShare)
        sink.number(CodingKeys.repeatedShare, self.repeatedShare)
        sink.number(ComputedKeys.monthBytes, self.monthBytes)
        sink.number(CodingKeys.limitBytes, self.limitBytes)
        sink.number(CodingKeys.stepRatio, self.stepRatio)
        sink.number(CodingKeys.projectedBytes, self.projectedBytes)
    }
}
