import TrafficModel

extension ReportCounters: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.datagrams, self.datagrams)
        sink.number(CodingKeys.records, self.records)
        sink.number(CodingKeys.joined, self.joined)
        sink.number(CodingKeys.inferred, self.inferred)
        sink.number(CodingKeys.early, self.early)
        sink.number(CodingKeys.malformedDatagrams, self.malformedDatagrams)
        sink.number(CodingKeys.unknownVersion, self.unknownVersion)
        sink.number(CodingKeys.skippedRecords, self.skippedRecords)
        sink.number(CodingKeys.malformedRecords, self.malformedRecords)
        sink.number(CodingKeys.unknownProcess, self.unknownProcess)
        sink.number(CodingKeys.foreign, self.foreign)
        sink.number(CodingKeys.late, self.late)
        sink.number(CodingKeys.duplicate, self.duplicate)
        sink.number(CodingKeys.overlapping, self.overlapping)
        sink.number(CodingKeys.impossible, self.impossible)
        sink.number(CodingKeys.unwaited, self.unwaited)
        sink.number(CodingKeys.inOther, self.inOther)
        sink.number(CodingKeys.forgottenExchanges, self.forgottenExchanges)
        sink.number(CodingKeys.droppedBySenders, self.droppedBySenders)
        sink.number(CodingKeys.droppedDatagrams, self.droppedDatagrams)
        sink.number(CodingKeys.missingDatagrams, self.missingDatagrams)
    }
}

extension ProcessGroup: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.name, self.name)
        sink.text(CodingKeys.executable, self.executable)
        sink.text(CodingKeys.systemdUnit, self.systemdUnit)
        sink.text(CodingKeys.containerID, self.containerID)
        sink.number(CodingKeys.uid, self.uid)
    }
}

extension MessageBytes: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.line, self.line)
        sink.number(CodingKeys.header, self.header)
        sink.number(CodingKeys.cookie, self.cookie)
        sink.number(CodingKeys.body, self.body)
        sink.number(CodingKeys.framing, self.framing)
        sink.number(CodingKeys.tls, self.tls)
        sink.number(SumKeys.message, self.message)
    }
}

extension EndpointUsage.Durations: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.count, self.count)
        sink.number(CodingKeys.p50, self.p50)
        sink.number(CodingKeys.p90, self.p90)
        sink.number(CodingKeys.p99, self.p99)
        sink.number(CodingKeys.max, self.max)
    }
}

extension EndpointUsage.Phase: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.count, self.count)
        sink.number(CodingKeys.sum, self.sum)
        sink.number(CodingKeys.max, self.max)
    }
}

extension EndpointUsage.Waste: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.failed, self.failed)
        sink.number(CodingKeys.throttled, self.throttled)
        sink.number(CodingKeys.redirected, self.redirected)
    }
}

extension EndpointUsage: Row {
    func write(to sink: inout some FieldSink) {
        sink.nested(CodingKeys.process, self.process)
        sink.word(CodingKeys.role, self.role)
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.route, self.route)
        sink.number(CodingKeys.requests, self.requests)
        sink.number(CodingKeys.responses, self.responses)
        sink.words(CodingKeys.outcomes, self.outcomes)
        sink.number(CodingKeys.repeated, self.repeated)
        sink.nested(CodingKeys.sent, self.sent)
        sink.nested(CodingKeys.received, self.received)
        sink.number(CodingKeys.decodedBody, self.decodedBody)
        sink.number(CodingKeys.wireEstimated, self.wireEstimated)
        sink.nested(CodingKeys.waste, self.waste)
        sink.words(CodingKeys.content, self.content)
        sink.optional(CodingKeys.duration, self.duration, blank: Durations(count: 0, p50: 0, p90: 0, p99: 0, max: 0))
        sink.members(CodingKeys.phases, self.phases) { "\($0.rawValue)=\($1.sum)" }
        sink.word(CodingKeys.quality, self.quality)
        sink.word(CodingKeys.contentClass, self.contentClass)
    }
}

extension ProcessEndpoint: Row {
    func write(to sink: inout some FieldSink) {
        sink.word(CodingKeys.role, self.role)
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.route, self.route)
        sink.number(CodingKeys.requests, self.requests)
        sink.number(CodingKeys.responses, self.responses)
        sink.number(CodingKeys.failures, self.failures)
        sink.number(CodingKeys.sent, self.sent)
        sink.number(CodingKeys.received, self.received)
        sink.word(CodingKeys.quality, self.quality)
    }
}

extension ExchangeUsage: Row {
    func write(to sink: inout some FieldSink) {
        self.process.write(to: &sink)
        sink.text(CodingKeys.processName, self.processName)
        sink.number(CodingKeys.exchange, self.exchange)
        sink.number(CodingKeys.chain, self.chain)
        sink.number(CodingKeys.hop, self.hop)
        sink.word(CodingKeys.role, self.role)
        sink.text(CodingKeys.method, self.method)
        sink.word(CodingKeys.version, self.version)
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.route, self.route)
        sink.number(CodingKeys.status, self.status)
        sink.word(CodingKeys.outcome, self.outcome)
        sink.time(CodingKeys.startedAt, self.startedAt)
        sink.number(CodingKeys.duration, self.duration)
        sink.words(CodingKeys.phases, self.phases)
        sink.optional(CodingKeys.request, self.request, blank: MessageBytes())
        sink.optional(CodingKeys.response, self.response, blank: MessageBytes())
        sink.number(CodingKeys.socketCookie, self.cookie?.rawValue)
        sink.word(CodingKeys.quality, self.quality)
    }
}
