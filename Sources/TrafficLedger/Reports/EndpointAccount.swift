import Histogram
import TrafficModel
import TrafficReport

/// One API of one service as the ledger knows it.
struct EndpointAccount {
    /// With the durations of the last ``summarize()``.
    private(set) var usage: EndpointUsage
    private var hasUndecodedBodies = false
    /// Microseconds. Grows with what is recorded; most APIs need a few kilobytes.
    private var durations: Histogram<UInt64>?
    private var isSummaryOld = false

    init(_ group: ProcessGroup, _ name: EndpointName) {
        self.usage = EndpointUsage(process: group, role: name.role, host: name.host, route: name.route)
    }

    /// - Parameters:
    ///   - wire: What of the socket's wire bytes is its part.
    mutating func add(_ message: Report.Message, isRequest: Bool, wire: UInt64, quality: JoinQuality) {
        if isRequest { self.usage.requests += 1 } else { self.usage.responses += 1 }
        let bytes = MessageBytes(message)
        if isRequest == (self.usage.role == .client) {
            self.usage.sent += bytes
        } else {
            self.usage.received += bytes
        }
        if message.bodyBytes > 0 && message.decodedBodyBytes == nil { self.hasUndecodedBodies = true }
        let decoded = (self.usage.decodedBody ?? 0) &+ (message.decodedBodyBytes ?? 0)
        self.usage.decodedBody = self.hasUndecodedBodies ? nil : decoded
        self.usage.wireEstimated &+= wire
        if message.bodyBytes > 0 {
            self.usage.content[ContentClass(message.contentClass), default: 0] &+= message.bodyBytes
        }
        self.usage.quality = max(self.usage.quality, quality)
    }

    /// - Parameter bytes: Of the exchange's messages.
    mutating func add(_ outcome: Report.Outcome, bytes: UInt64) {
        let ending = ExchangeOutcome(outcome.ending)
        self.usage.outcomes[ending, default: 0] += 1
        switch outcome.status {
        case 429, 503: self.usage.waste.throttled &+= bytes
        case _ where ending.isFailure: self.usage.waste.failed &+= bytes
        case 300..<304, 305..<400: self.usage.waste.redirected &+= bytes
        default: break
        }
        self.record(outcome.duration / 1_000)
        for (phase, value) in outcome.phases.named {
            var sum = self.usage.phases[phase, default: EndpointUsage.Phase()]
            sum.count += 1
            sum.sum &+= UInt64(value)
            sum.max = max(sum.max, UInt64(value))
            self.usage.phases[phase] = sum
        }
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
        self.isSummaryOld = true
    }

    /// Percentiles take a walk through the histogram: not for every snapshot.
    mutating func summarize() {
        guard self.isSummaryOld, let durations else { return }
        self.isSummaryOld = false
        self.usage.duration = EndpointUsage.Durations(
            count: durations.totalCount,
            p50: durations.valueAtPercentile(50),
            p90: durations.valueAtPercentile(90),
            p99: durations.valueAtPercentile(99),
            max: durations.max
        )
    }
}

/// An API within its process group.
struct EndpointName: Hashable {
    /// RFC 1035 section 2.3.4.
    private static let longestHost = 253
    private static let longestRoute = 256

    var role: EndpointRole
    var host: String
    var route: String

    /// Cut where a program sends longer names than there can be.
    init(role: EndpointRole, host: String, route: String) {
        self.role = role
        self.host = host.cut(to: Self.longestHost)
        self.route = route.cut(to: Self.longestRoute)
    }

    /// Where what exceeds the limit of its group adds up.
    var other: EndpointName { EndpointName(role: self.role, host: EndpointUsage.other, route: EndpointUsage.other) }
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
