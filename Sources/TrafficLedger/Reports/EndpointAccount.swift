import TrafficModel
import TrafficReport

/// One endpoint of one service as the ledger knows it.
struct EndpointAccount: Codable {
    /// What readers get of the numbers below, as of the last ``summarize()``.
    private struct Summary: Codable {
        var requests: UInt64 = 0
        var responses: UInt64 = 0
        var outcomes: [ExchangeOutcome: UInt64] = [:]
        var repeated: UInt64 = 0
        var sent = MessageBytes()
        var received = MessageBytes()
        var decodedBody: UInt64?
        var wire: UInt64 = 0
        var waste = EndpointUsage.Waste()
        var content: [ContentClass: UInt64] = [:]
        var duration: EndpointUsage.Durations?
        var phases: [ExchangePhase: EndpointUsage.Phase] = [:]
        var quality = JoinQuality.exact
    }

    let group: ProcessGroup
    let name: EndpointName
    private var summary = Summary()
    private var isOld = true

    // Arrays by the raw values of the report's words, because dictionaries would be most of the work of a record. They are
    // as long as the words that came: a later program may know more.
    private var requests: UInt64 = 0
    private var responses: UInt64 = 0
    private var sent = MessageBytes()
    private var received = MessageBytes()
    private var wire: UInt64 = 0
    private var waste = EndpointUsage.Waste()
    private var outcomes: [UInt64] = []
    private var content: [UInt64] = []
    private var phases: [EndpointUsage.Phase] = []
    private var decodedBody: UInt64 = 0
    private var hasUndecodedBodies = false
    private var quality = JoinQuality.exact
    private var durations = DurationTotals()
    private var durationBuckets = DurationBuckets()
    private var requestBodies = BodySizeBuckets()
    private var responseBodies = BodySizeBuckets()
    /// Of the exchange that ended last.
    private var responseKey: ResponseKey?
    /// Exchanges that ended with the same response as the one before.
    private var repeated: UInt64 = 0

    init(_ group: ProcessGroup, _ name: EndpointName) {
        (self.group, self.name) = (group, name)
    }

    /// Only such an endpoint has a series.
    private var isRoute: Bool {
        if case .route = self.name.subject { true } else { false }
    }

    /// Adds the parts of an exchange that count.
    mutating func add(_ share: ExchangeShare) {
        if let request = share.request { self.add(request) }
        if let response = share.response { self.add(response) }
        if let outcome = share.outcome {
            self.add(outcome, bytes: share.bytes)
            if share.responseKey != nil, share.responseKey == self.responseKey { self.repeated += 1 }
            self.responseKey = share.responseKey
        }
    }

    mutating func add(_ message: MessageShare) {
        self.isOld = true
        if message.isRequest {
            self.requests += 1
            if self.isRoute { self.requestBodies.record(message.bytes.body) }
        } else {
            self.responses += 1
            if self.isRoute { self.responseBodies.record(message.bytes.body) }
        }
        if message.isRequest == (self.name.role == .client) {
            self.sent += message.bytes
        } else {
            self.received += message.bytes
        }
        self.wire &+= message.wire
        self.quality = max(self.quality, message.quality)
        guard message.bytes.body > 0 else { return }
        self.content[message.contentClass.index, default: 0] &+= message.bytes.body
        if let decoded = message.decodedBody {
            self.decodedBody &+= decoded
        } else {
            self.hasUndecodedBodies = true
        }
    }

    /// Takes a message back, because the message counts in another row from now on. That happens to rows of content alone. The quality stays the worst of all
    /// messages that were here. An undecoded body that was here stays noted, too.
    mutating func remove(_ message: MessageShare) {
        self.isOld = true
        if message.isRequest { self.requests -= 1 } else { self.responses -= 1 }
        if message.isRequest == (self.name.role == .client) {
            self.sent -= message.bytes
        } else {
            self.received -= message.bytes
        }
        self.wire &-= message.wire
        self.content[message.contentClass.index, default: 0] &-= message.bytes.body
        self.decodedBody &-= message.bytes.body > 0 ? message.decodedBody ?? 0 : 0
    }

    /// - Parameter bytes: The bytes of the exchange's messages.
    private mutating func add(_ outcome: Report.Exchange.Outcome, bytes: UInt64) {
        self.isOld = true
        self.outcomes[Int(outcome.ending.rawValue), default: 0] += 1
        switch outcome.status {
        case 429, 503: self.waste.throttled &+= bytes
        case _ where ExchangeOutcome(outcome.ending).isFailure: self.waste.failed &+= bytes
        case 300..<304, 305..<400: self.waste.redirected &+= bytes
        default: break
        }
        let duration = min(outcome.duration / 1_000, DurationTotals.longest)
        self.durations.record(duration)
        if self.isRoute { self.durationBuckets.record(duration) }
        let phases = outcome.phases
        self.add(phases.dns, at: 0)
        self.add(phases.connect, at: 1)
        self.add(phases.tls, at: 2)
        self.add(phases.send, at: 3)
        self.add(phases.wait, at: 4)
        self.add(phases.receive, at: 5)
    }

    private mutating func add(_ microseconds: UInt32?, at phase: Int) {
        guard let value = microseconds.map(UInt64.init) else { return }
        self.phases[phase, default: .init()].count += 1
        self.phases[phase, default: .init()].sum &+= value
        self.phases[phase, default: .init()].max = max(self.phases[phase, default: .init()].max, value)
    }

    var needsHistogram: Bool { self.durations.needsHistogram }

    /// - Parameter isFine: As in ``DurationTotals/makeHistogram(isFine:)``.
    mutating func makeHistogram(isFine: Bool) { self.durations.makeHistogram(isFine: isFine) }

    /// Updates ``usage``. Percentiles need a walk through the histogram, so this is not done for every record or every
    /// reader.
    mutating func summarize() {
        guard self.isOld else { return }
        self.isOld = false
        self.summary.requests = self.requests
        self.summary.responses = self.responses
        self.summary.repeated = self.repeated
        self.summary.sent = self.sent
        self.summary.received = self.received
        self.summary.wire = self.wire
        self.summary.waste = self.waste
        self.summary.quality = self.quality
        self.summary.decodedBody = self.hasUndecodedBodies ? nil : self.decodedBody
        for ending in Report.Ending.allCases where self.outcomes[Int(ending.rawValue), default: 0] > 0 {
            self.summary.outcomes[ExchangeOutcome(ending)] = self.outcomes[Int(ending.rawValue), default: 0]
        }
        for content in Report.ContentClass.allCases {
            let bytes = self.content[content.index, default: 0]
            self.summary.content[ContentClass(content)] = bytes > 0 ? bytes : nil
        }
        for (index, phase) in ExchangePhase.allCases.enumerated() where self.phases[index, default: .init()].count > 0 {
            self.summary.phases[phase] = self.phases[index, default: .init()]
        }
        self.summary.duration = self.durations.usage
    }

    /// As of now; `nil` for an endpoint that is no route.
    var sum: EndpointSum? {
        guard case .route(let host, let route) = self.name.subject else { return nil }
        var (ended, failures): (UInt64, UInt64) = (0, 0)
        for ending in Report.Ending.allCases {
            let count = self.outcomes[Int(ending.rawValue), default: 0]
            ended += count
            if ExchangeOutcome(ending).isFailure { failures += count }
        }
        return EndpointSum(
            endpoint: ServiceEndpoint(process: self.group, role: self.name.role, host: host, route: route),
            counts: EndpointCounts(
                requests: self.requests,
                ended: ended,
                failures: failures,
                repeated: self.repeated,
                sent: self.sent,
                received: self.received
            )
        )
    }

    /// What a series gets of this row, as of now; `nil` for an endpoint that is no route.
    var seriesCounts: (endpoint: ServiceEndpoint, counts: EndpointSeriesCounts)? {
        self.sum.map { sum in
            (
                sum.endpoint,
                EndpointSeriesCounts(
                    counts: sum.counts,
                    durations: self.durationBuckets,
                    requestBodies: self.requestBodies,
                    responseBodies: self.responseBodies
                )
            )
        }
    }

    /// As of the last ``summarize()``.
    var usage: EndpointUsage {
        EndpointUsage(
            process: self.group,
            role: self.name.role,
            subject: self.name.subject,
            requests: self.summary.requests,
            responses: self.summary.responses,
            outcomes: self.summary.outcomes,
            repeated: self.summary.repeated,
            sent: self.summary.sent,
            received: self.summary.received,
            decodedBody: self.summary.decodedBody,
            wireEstimated: self.summary.wire,
            waste: self.summary.waste,
            content: self.summary.content,
            duration: self.summary.duration,
            phases: self.summary.phases,
            quality: self.summary.quality
        )
    }
}

extension Report.ContentClass {
    /// The raw value, without the gap before `other`.
    /// Does not change when there are more classes.
    fileprivate var index: Int { self == .other ? 0 : Int(self.rawValue) + 1 }
}

extension Array {
    /// Grows as far as it is used.
    fileprivate subscript(_ index: Int, default initial: @autoclosure () -> Element) -> Element {
        get { index < self.count ? self[index] : initial() }
        set {
            while self.count <= index { self.append(initial()) }
            self[index] = newValue
        }
    }
}
