import TrafficKit
import TrafficReport

/// One direction of an HTTP/2 connection: what has passed, and how much of it is counted. Only ``HTTP2Exchanges`` uses
/// this object; see there for `@exclusivity(unchecked)`.
final class HTTP2Direction {
    /// An event that has passed and is not counted yet.
    struct Step {
        var event: HTTP2FrameScanner.Event
        var time: UInt64
    }

    @exclusivity(unchecked) var scanner = HTTP2FrameScanner()
    @exclusivity(unchecked) var fields = HPACKReader()
    @exclusivity(unchecked) var tls: TLSStream?
    /// Bytes of the socket's stream that had passed before the first scanned byte.
    let base: UInt64
    @exclusivity(unchecked) var steps: [Step] = []
    /// Counted bytes of the scanned stream.
    @exclusivity(unchecked) var position: UInt64 = 0
    /// Counted bytes of the socket's stream.
    @exclusivity(unchecked) var claimed: UInt64 = 0
    @exclusivity(unchecked) var remainder = Report.Connection.Remainder()
    /// The part of `remainder.tls` that TLS added to bytes of no reported message.
    @exclusivity(unchecked) var besideMessages: UInt64 = 0

    init(base: UInt64, tls: TLSStream?) {
        self.base = base
        self.tls = tls
    }

    /// - Returns: Where the next `count` bytes of the scanned stream are on the socket's stream.
    func place(_ count: UInt64) -> (interval: Report.Interval, isExact: Bool) {
        let from = self.position
        self.position += count
        var place = (interval: Report.Interval(from: self.base + from, to: self.base + from + count), isExact: true)
        if let tls = self.tls {
            place = tls.interval(Report.Interval(from: from, to: from + count)) ?? (Report.Interval(), false)
        }
        self.claimed += place.interval.bytes
        return place
    }
}
