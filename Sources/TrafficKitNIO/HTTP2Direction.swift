import TrafficKit
import TrafficReport

/// One direction of an HTTP/2 connection: what has passed, and how much of it is put down. Its connection's alone: see there.
final class HTTP2Direction {
    /// What has passed and is not put down.
    struct Step {
        var event: HTTP2FrameScanner.Event
        var time: UInt64
    }

    @exclusivity(unchecked) var scanner = HTTP2FrameScanner()
    @exclusivity(unchecked) var fields = HTTP2FieldDecoder()
    @exclusivity(unchecked) var tls: TLSStream?
    /// Bytes of the socket's stream that had passed before the first one that was scanned.
    let base: UInt64
    @exclusivity(unchecked) var steps: [Step] = []
    /// Of the stream that is scanned, put down.
    @exclusivity(unchecked) var position: UInt64 = 0
    /// Of the socket's stream, put down.
    @exclusivity(unchecked) var claimed: UInt64 = 0
    @exclusivity(unchecked) var remainder = Report.Connection.Remainder()
    /// Of `remainder.tls`, what is in records that carry no message.
    @exclusivity(unchecked) var besideMessages: UInt64 = 0

    init(base: UInt64, tls: TLSStream?) {
        self.base = base
        self.tls = tls
    }

    /// Where the next bytes of the stream that is scanned are on the socket's.
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
