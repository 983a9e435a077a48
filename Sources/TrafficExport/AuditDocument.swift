public import TrafficAudit
import TrafficModel

extension AuditReport {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.time(CodingKeys.takenAt, self.takenAt)
            writer.time(CodingKeys.countingSince, self.countingSince)
            writer.word(CodingKeys.method, self.method)
            writer.rows(CodingKeys.sections, self.sections)
            writer.rows(CodingKeys.disputes, self.disputes)
            writer.number(CodingKeys.disputedSockets, self.disputedSockets)
            writer.number(CodingKeys.unexplained, self.unexplained)
            writer.flag(CodingKeys.countsInterfaces, self.countsInterfaces)
        }
        return writer.bytes
    }
}

extension AuditReport.Line: Row {
    func write(to sink: inout some FieldSink) {
        sink.word(CodingKeys.line, self.line)
        sink.number(CodingKeys.bytes, self.bytes)
    }
}

extension AuditReport.Section: Row {
    func write(to sink: inout some FieldSink) {
        sink.word(CodingKeys.kind, self.kind)
        sink.text(CodingKeys.name, self.name)
        sink.list(CodingKeys.sent, self.sent) { $0.line.rawValue }
        sink.list(CodingKeys.received, self.received) { $0.line.rawValue }
    }
}

extension AuditReport.Dispute: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.cookie, self.cookie.rawValue)
        sink.text(CodingKeys.name, self.name)
        sink.list(CodingKeys.processes, self.processes) { String($0.pid) }
        sink.word(CodingKeys.direction, self.direction)
        sink.number(CodingKeys.payload, self.payload)
        sink.number(CodingKeys.tcp, self.tcp)
        sink.number(CodingKeys.wirePayload, self.wirePayload)
        sink.number(CodingKeys.unexplained, self.unexplained)
    }
}
