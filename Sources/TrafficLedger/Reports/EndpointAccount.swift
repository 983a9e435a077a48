import Histogram
import TrafficModel
import TrafficReport

/// One API of one service as the ledger knows it.
struct EndpointAccount {
    /// As of the last ``summarize()``.
    private(set) var usage: EndpointUsage
    private var isOld = true

    // By the raw values of the report's words: dictionaries would be most of the work of a record.
    private var requests: UInt64 = 0
    private var responses: UInt64 = 0
    private var sent = MessageBytes()
    private var received = MessageBytes()
    private var wire: UInt64 = 0
    private var waste = EndpointUsage.Waste()
    private var outcomes = [UInt64](repeating: 0, count: Report.Ending.allCases.count)
    private var content = [UInt64](repeating: 0, count: Report.ContentClass.allCases.count)
    private var phases = [EndpointUsage.Phase](repeating: .init(), count: ExchangePhase.allCases.count)
    private var decodedBody: UInt64 = 0
    private var hasUndecodedBodies = false
    private var quality = JoinQuality.exact
    /// Microseconds. Grows with what is recorded; most APIs need a few kilobytes.
    private var durations: Histogram<UInt64>?

    init(_ group: ProcessGroup, _ name: EndpointName) {
        self.usage = EndpointUsage(process: group, role: name.role, host: name.host, route: name.route)
    }

    /// - Parameters:
    ///   - wire: What of the socket's wire bytes is its part.
    mutating func add(_ message: Report.Message, isRequest: Bool, wire: UInt64, quality: JoinQuality) {
        self.isOld = true
        if isRequest { self.requests += 1 } else { self.responses += 1 }
        let bytes = MessageBytes(message)
        if isRequest == (self.usage.role == .client) { self.sent += bytes } else { self.received += bytes }
        self.wire &+= wire
        self.quality = max(self.quality, quality)
        guard message.bodyBytes > 0 else { return }
        self.content[message.contentClass.index] &+= message.bodyBytes
        if let decoded = message.decodedBodyBytes {
            self.decodedBody &+= decoded
        } else {
            self.hasUndecodedBodies = true
        }
    }

    /// - Parameter bytes: Of the exchange's messages.
    mutating func add(_ outcome: Report.Outcome, bytes: UInt64) {
        self.isOld = true
        self.outcomes[Int(outcome.ending.rawValue)] += 1
        switch outcome.status {
        case 429, 503: self.waste.throttled &+= bytes
        case _ where ExchangeOutcome(outcome.ending).isFailure: self.waste.failed &+= bytes
        case 300..<304, 305..<400: self.waste.redirected &+= bytes
        default: break
        }
        self.record(outcome.duration / 1_000)
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
        self.phases[phase].count += 1
        self.phases[phase].sum &+= value
        self.phases[phase].max = max(self.phases[phase].max, value)
    }

    private mutating func record(_ microseconds: UInt64) {
        if self.durations == nil {
            self.durations = Histogram(
                lowestDiscernibleValue: 1,
                highestTrackableValue: 65_536,
                numberOfSignificantValueDigits: .two
            )
            self.durations?.autoResize = true
        }
        // A day at most: a hostile number must not make the histogram large.
        _ = self.durations?.record(min(microseconds, 86_400_000_000))
    }

    /// Percentiles take a walk through the histogram: not for every record, nor for every reader.
    mutating func summarize() {
        guard self.isOld else { return }
        self.isOld = false
        self.usage.requests = self.requests
        self.usage.responses = self.responses
        self.usage.sent = self.sent
        self.usage.received = self.received
        self.usage.wireEstimated = self.wire
        self.usage.waste = self.waste
        self.usage.quality = self.quality
        self.usage.decodedBody = self.hasUndecodedBodies ? nil : self.decodedBody
        for ending in Report.Ending.allCases where self.outcomes[Int(ending.rawValue)] > 0 {
            self.usage.outcomes[ExchangeOutcome(ending)] = self.outcomes[Int(ending.rawValue)]
        }
        for content in Report.ContentClass.allCases where self.content[content.index] > 0 {
            self.usage.content[ContentClass(content)] = self.content[content.index]
        }
        for (index, phase) in ExchangePhase.allCases.enumerated() where self.phases[index].count > 0 {
            self.usage.phases[phase] = self.phases[index]
        }
        guard let durations else { return }
        self.usage.duration = EndpointUsage.Durations(
            count: durations.totalCount,
            p50: durations.valueAtPercentile(50),
            p90: durations.valueAtPercentile(90),
            p99: durations.valueAtPercentile(99),
            max: durations.max
        )
    }
}

extension Report.ContentClass {
    /// Without the gap before `other`.
    fileprivate var index: Int { self == .other ? Self.allCases.count - 1 : Int(self.rawValue) }
}

/// An API within its process group.
struct EndpointName: Hashable {
    /// RFC 1035 section 2.3.4.
    private static let longestHost = 253
    private static let longestRoute = 256

    var isServer: Bool
    var host: String
    var route: String

    var role: EndpointRole { self.isServer ? .server : .client }

    /// Cut where a program sends longer names than there can be.
    init(_ role: Report.Role, host: String, route: String) {
        self.isServer = role == .server
        self.host = host.cut(to: Self.longestHost)
        self.route = route.cut(to: Self.longestRoute)
    }

    /// Where what exceeds the limit of its group adds up.
    var other: EndpointName {
        var other = self
        (other.host, other.route) = (EndpointUsage.other, EndpointUsage.other)
        return other
    }
}

extension String {
    /// - Parameter limit: Bytes.
    func cut(to limit: Int) -> String {
        guard self.utf8.count > limit else { return self }
        var end = self.utf8.index(self.startIndex, offsetBy: limit)
        while end.samePosition(in: self.unicodeScalars) == nil { end = self.utf8.index(before: end) }
        return String(self[..<end])
    }
}
