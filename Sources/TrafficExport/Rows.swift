import TrafficDocuments
import TrafficLimits
import TrafficModel

// The fields of every value, in the order of 04-interfaces. Only the `Row` extensions say which number has which name.

extension ProcessIdentity: Row {
    func write(to sink: inout some FieldSink) {
        self.writeNumbers(to: &sink)
        self.writeName(to: &sink)
    }

    func writeNumbers(to sink: inout some FieldSink) {
        sink.number(CodingKeys.pid, self.pid)
        sink.number(CodingKeys.startBoottimeNanoseconds, self.startBoottimeNanoseconds)
    }

    func writeName(to sink: inout some FieldSink) {
        sink.text(NameKeys.name, self.name)
    }
}

extension PayloadBytes: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.sent, self.sent)
        sink.number(CodingKeys.received, self.received)
    }
}

extension ByteCounts: Row {
    func write(to sink: inout some FieldSink) {
        self.payload.write(to: &sink)
        sink.number(CodingKeys.pendingSent, self.pendingSent)
        sink.number(CodingKeys.wireSent, self.wireSent)
        sink.number(CodingKeys.wireReceived, self.wireReceived)
        sink.number(CodingKeys.wireEstimated, self.writtenEstimate)
        sink.number(CodingKeys.retransmitted, self.retransmitted)
    }

    /// Absent where it is 0, as with ``encode(to:)``.
    fileprivate var writtenEstimate: UInt64? { self.wireEstimated > 0 ? self.wireEstimated : nil }
}

extension PayloadRates: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.sent, self.sent)
        sink.number(CodingKeys.received, self.received)
    }
}

extension ProcessDetails: Row {
    func write(to sink: inout some FieldSink) {
        sink.time(CodingKeys.startedAt, self.startedAt)
        sink.text(CodingKeys.name, self.name)
        sink.text(CodingKeys.executable, self.executable)
        sink.texts(CodingKeys.commandLine, self.commandLine)
        sink.number(CodingKeys.uid, self.uid)
        sink.text(CodingKeys.user, self.user)
        sink.text(CodingKeys.systemdUnit, self.systemdUnit)
        sink.text(CodingKeys.containerID, self.containerID)
        sink.text(CodingKeys.cgroup, self.cgroup)
        sink.number(CodingKeys.networkNamespace, self.networkNamespace)
    }
}

extension ProcessUsage: Row {
    func write(to sink: inout some FieldSink) {
        self.identity.writeNumbers(to: &sink)
        self.details.write(to: &sink)
        sink.word(CodingKeys.state, self.state)
        sink.time(CodingKeys.exitedAt, self.exitedAt)
        sink.number(CodingKeys.socketsOpen, self.socketsOpen)
        self.bytes.write(to: &sink)
        sink.nested(CodingKeys.rates, self.rates)
        sink.number(CodingKeys.explained, self.explained)
        sink.number(CodingKeys.unattributed, self.unattributed)
        // Last, because this is the newest column of CSV.
        self.identity.writeName(to: &sink)
        sink.rows(CodingKeys.endpoints, self.endpoints)
    }
}

extension ExitedUsage: Row {
    func write(to sink: inout some FieldSink) {
        self.group.write(to: &sink)
        sink.text(CodingKeys.user, self.user)
        sink.number(CodingKeys.processes, self.processes)
        self.bytes.write(to: &sink)
        sink.number(CodingKeys.explained, self.explained)
        sink.number(CodingKeys.unattributed, self.unattributed)
    }
}

extension SocketAddress: Row {
    func write(to sink: inout some FieldSink) {
        sink.address(CodingKeys.address, self.address)
        sink.number(CodingKeys.port, self.port)
    }
}

extension SocketUsage.Owner: Row {
    func write(to sink: inout some FieldSink) {
        self.identity.write(to: &sink)
        self.payload.write(to: &sink)
        sink.flag(CodingKeys.isFormer, self.isFormer ? true : nil)
    }
}

extension SocketUsage: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.serial, self.serial)
        sink.number(CodingKeys.cookie, self.cookie.rawValue)
        sink.word(CodingKeys.transport, self.transport)
        sink.word(CodingKeys.family, self.family)
        sink.nested(CodingKeys.local, self.local)
        sink.nested(CodingKeys.remote, self.remote)
        sink.word(CodingKeys.role, self.role)
        sink.word(CodingKeys.scope, self.scope)
        sink.text(CodingKeys.addressClass, self.addressClass)
        sink.word(CodingKeys.state, self.state)
        sink.time(CodingKeys.openedAt, self.openedAt)
        sink.time(CodingKeys.closedAt, self.closedAt)
        sink.flag(CodingKeys.preexisting, self.preexisting)
        sink.number(CodingKeys.networkNamespace, self.networkNamespace)
        self.bytes.write(to: &sink)
        sink.nested(CodingKeys.rates, self.rates)
        sink.number(CodingKeys.segmentsSent, self.segmentsSent)
        sink.number(CodingKeys.segmentsReceived, self.segmentsReceived)
        sink.number(CodingKeys.retransmittedSegments, self.retransmittedSegments)
        sink.number(CodingKeys.smoothedRoundTripMicroseconds, self.smoothedRoundTripMicroseconds)
        sink.number(CodingKeys.connectMicroseconds, self.connectMicroseconds)
        sink.word(CodingKeys.wireQuality, self.wireQuality)
        sink.list(CodingKeys.owners, self.owners) { String($0.identity.pid) }
        sink.flag(CodingKeys.ownersInferred, self.ownersInferred)
        sink.number(CodingKeys.explained, self.explained)
        sink.number(CodingKeys.unattributed, self.unattributed)
    }
}

extension InterfaceUsage: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.name, self.name)
        sink.number(CodingKeys.sentBytes, self.sentBytes)
        sink.number(CodingKeys.receivedBytes, self.receivedBytes)
        sink.number(CodingKeys.sentPackets, self.sentPackets)
        sink.number(CodingKeys.receivedPackets, self.receivedPackets)
        sink.number(CodingKeys.sentBytesPerSecond, self.sentBytesPerSecond)
        sink.number(CodingKeys.receivedBytesPerSecond, self.receivedBytesPerSecond)
    }
}

extension HostDescription: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.name, self.name)
        sink.text(CodingKeys.bootID, self.bootID)
        sink.text(CodingKeys.kernel, self.kernel)
        sink.text(CodingKeys.timeZone, self.timeZone)
    }
}

extension DaemonDescription: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.version, self.version)
        sink.number(CodingKeys.pid, self.pid)
        sink.time(CodingKeys.startedAt, self.startedAt)
    }
}

extension CaptureStatus: Row {
    func write(to sink: inout some FieldSink) {
        sink.word(CodingKeys.method, self.method)
        sink.text(CodingKeys.reason, self.reason)
        sink.texts(CodingKeys.hooks, self.hooks)
        sink.texts(CodingKeys.blindSpots, self.blindSpots)
        sink.nested(CodingKeys.loss, self.loss)
        sink.nested(CodingKeys.reports, self.reports)
    }
}

extension CaptureLoss: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.ringFull, self.ringFull)
        sink.number(CodingKeys.socketsFolded, self.socketsFolded)
        sink.number(CodingKeys.callsFolded, self.callsFolded)
        sink.number(CodingKeys.mapFull, self.mapFull)
        sink.number(CodingKeys.recordsMalformed, self.recordsMalformed)
        sink.number(CodingKeys.reportsDropped, self.reportsDropped)
        sink.number(CodingKeys.reportsRejected, self.reportsRejected)
        sink.number(CodingKeys.countersBackwards, self.countersBackwards)
        sink.number(CodingKeys.missedRuns, self.missedRuns)
        sink.number(CodingKeys.readsFailed, self.readsFailed)
        sink.number(CodingKeys.uncountedNanoseconds, self.uncountedNanoseconds)
    }
}

extension DoctorReport.Check: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.name, self.name)
        sink.word(CodingKeys.status, self.status)
        sink.text(CodingKeys.detail, self.detail)
        sink.text(CodingKeys.remedy, self.remedy)
    }
}

extension StatedLimit: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.of, self.of)
        sink.number(CodingKeys.process, self.process)
        sink.number(CodingKeys.user, self.user)
        sink.number(CodingKeys.all, self.all)
        sink.text(CodingKeys.beyond, self.beyond)
    }
}

extension CaptureCost: Row {
    func write(to sink: inout some FieldSink) {
        sink.number(CodingKeys.seconds, self.seconds)
        sink.list(CodingKeys.programs, self.programs, label: \.name)
        sink.flag(CodingKeys.statisticsWereOn, self.statisticsWereOn)
        sink.number(CodingKeys.emptyProgramNanoseconds, self.emptyProgramNanoseconds)
        sink.number(CodingKeys.statisticsNanoseconds, self.statisticsNanoseconds)
    }
}

extension CaptureCost.Program: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.name, self.name)
        sink.text(CodingKeys.hook, self.hook)
        sink.number(CodingKeys.calls, self.calls)
        sink.number(CodingKeys.callsPerSecond, self.callsPerSecond)
        sink.number(CodingKeys.nanosecondsPerCall, self.nanosecondsPerCall)
        sink.number(CodingKeys.cpuPercent, self.cpuPercent)
        sink.number(CodingKeys.missed, self.missed)
    }
}

extension HistoryName: Row {
    func write(to sink: inout some FieldSink) {
        sink.text(CodingKeys.process, self.process)
        sink.number(CodingKeys.uid, self.uid)
        sink.text(CodingKeys.systemdUnit, self.systemdUnit)
        sink.text(CodingKeys.containerID, self.containerID)
        sink.text(CodingKeys.scope, self.scope)
        sink.text(CodingKeys.addressClass, self.addressClass)
    }

    /// What the row stands for that is no process, scope or class.
    fileprivate func writeSubject(to sink: inout some FieldSink) {
        sink.text(CodingKeys.role, self.role)
        sink.text(CodingKeys.host, self.host)
        sink.text(CodingKeys.route, self.route)
        sink.text(CodingKeys.interface, self.interface)
    }
}

extension HistoryRow: Row {
    func write(to sink: inout some FieldSink) {
        sink.time(CodingKeys.time, self.time)
        sink.text(CodingKeys.localTime, self.localTime?.description)
        self.name.write(to: &sink)
        sink.text(CodingKeys.user, self.user)
        self.amounts.writeBytes(to: &sink)
        self.name.writeSubject(to: &sink)
        self.amounts.writeOthers(to: &sink)
    }
}

extension HistoryAmounts: Row {
    func write(to sink: inout some FieldSink) {
        self.writeBytes(to: &sink)
        self.writeOthers(to: &sink)
    }

    fileprivate func writeBytes(to sink: inout some FieldSink) {
        let bytes: ByteCounts? = if case .bytes(let bytes) = self { bytes } else { nil }
        sink.number(PayloadBytes.CodingKeys.sent, bytes?.payload.sent)
        sink.number(PayloadBytes.CodingKeys.received, bytes?.payload.received)
        sink.number(ByteCounts.CodingKeys.pendingSent, bytes?.pendingSent)
        sink.number(ByteCounts.CodingKeys.wireSent, bytes?.wireSent)
        sink.number(ByteCounts.CodingKeys.wireReceived, bytes?.wireReceived)
        sink.number(ByteCounts.CodingKeys.wireEstimated, bytes?.writtenEstimate)
        sink.number(ByteCounts.CodingKeys.retransmitted, bytes?.retransmitted)
    }

    fileprivate func writeOthers(to sink: inout some FieldSink) {
        let counts: EndpointCounts? = if case .messages(let counts) = self { counts } else { nil }
        sink.number(EndpointCounts.HistoryKeys.requests, counts?.requests)
        sink.number(EndpointCounts.HistoryKeys.ended, counts?.ended)
        sink.number(EndpointCounts.HistoryKeys.failures, counts?.failures)
        sink.number(EndpointCounts.HistoryKeys.sentMessage, counts?.sent.message)
        sink.number(EndpointCounts.HistoryKeys.receivedMessage, counts?.received.message)
        sink.number(EndpointCounts.HistoryKeys.sentHeader, counts?.sent.header)
        sink.number(EndpointCounts.HistoryKeys.receivedHeader, counts?.received.header)
        sink.number(EndpointCounts.HistoryKeys.sentBody, counts?.sent.body)
        sink.number(EndpointCounts.HistoryKeys.receivedBody, counts?.received.body)
        let packets: InterfaceCounts? = if case .packets(let counts) = self { counts } else { nil }
        sink.number(InterfaceCounts.CodingKeys.sentBytes, packets?.sentBytes)
        sink.number(InterfaceCounts.CodingKeys.receivedBytes, packets?.receivedBytes)
        sink.number(InterfaceCounts.CodingKeys.sentPackets, packets?.sentPackets)
        sink.number(InterfaceCounts.CodingKeys.receivedPackets, packets?.receivedPackets)
    }
}
