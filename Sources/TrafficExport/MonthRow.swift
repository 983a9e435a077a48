public import TrafficDocuments
import TrafficModel

extension MonthReport: ListDocument {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            self.write(to: &writer)
        }
        return writer.bytes
    }

    /// The same object without its version, and a line feed.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { self.write(to: &$0) }
        writer.lineFeed()
        return writer.bytes
    }

    /// RFC 4180: a header line with stable columns, and a line. The fields of ``json()``; those of inner objects have names
    /// such as `top_day_time`.
    package func delimited(_ dialect: DelimitedWriter.Dialect) -> [UInt8] {
        var writer = DelimitedWriter(dialect)
        writer.lines(of: [self], header: self, context: nil)
        return writer.bytes
    }

    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.MonthReport_schema_json }
}

extension MonthReport: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.month, self.month.description)
        sink.text(CodingKeys.scope, self.scope)
        sink.text(CodingKeys.addressClass, self.addressClass)
        sink.time(CodingKeys.since, self.since)
        sink.time(CodingKeys.until, self.until)
        sink.text(CodingKeys.localSince, self.localSince?.description)
        sink.text(CodingKeys.localUntil, self.localUntil?.description)
        sink.text(CodingKeys.timeZone, self.timeZone)
        sink.number(CodingKeys.countedSeconds, self.countedSeconds)
        sink.number(CodingKeys.missingSeconds, self.missingSeconds)
        sink.nested(CodingKeys.totals, self.totals)
        sink.optional(CodingKeys.dailyAverage, self.dailyAverage, blank: ByteCounts())
        sink.optional(CodingKeys.topDay, self.topDay, blank: .blank)
        sink.nested(CodingKeys.intervals, self.intervals)
        sink.optional(CodingKeys.percentile95, self.percentile95, blank: .blank)
        sink.optional(CodingKeys.exceeding, self.exceeding, blank: .blank)
        sink.optional(CodingKeys.projection, self.projection, blank: ByteCounts())
    }
}

extension MonthReport.Day: Row {
    fileprivate static var blank: Self {
        let zero = Timestamp(nanosecondsSinceEpoch: 0)
        return Self(time: zero, localTime: HostTime(zero, offset: 0), bytes: ByteCounts())
    }

    func write(to sink: inout some FieldSink) {
        sink.time(CodingKeys.time, self.time)
        sink.text(CodingKeys.localTime, self.localTime.description)
        self.bytes.write(to: &sink)
    }
}

extension MonthReport.Intervals: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.seconds, self.seconds)
        sink.number(CodingKeys.total, self.total)
        sink.number(CodingKeys.counted, self.counted)
    }
}

extension MonthReport.BitRates: Row {
    fileprivate static var blank: Self { Self(payloadSent: 0, payloadReceived: 0) }

    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.payloadSent, self.payloadSent)
        sink.number(CodingKeys.payloadReceived, self.payloadReceived)
        sink.number(CodingKeys.wireSent, self.wireSent)
        sink.number(CodingKeys.wireReceived, self.wireReceived)
    }
}

extension MonthReport.Excess: Row {
    fileprivate static var blank: Self { Self(bitsPerSecond: 0, payloadSent: 0, payloadReceived: 0) }

    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.bitsPerSecond, self.bitsPerSecond)
        sink.number(CodingKeys.payloadSent, self.payloadSent)
        sink.number(CodingKeys.payloadReceived, self.payloadReceived)
        sink.number(CodingKeys.wireSent, self.wireSent)
        sink.number(CodingKeys.wireReceived, self.wireReceived)
    }
}
