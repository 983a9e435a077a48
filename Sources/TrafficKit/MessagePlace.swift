package import TrafficReport

/// Where on the socket's stream a message is.
package struct MessagePlace: Hashable, Sendable {
    /// Empty: the place is unknown.
    package var interval: Report.Interval
    /// Bytes that TLS added to the message.
    package var tlsBytes: UInt64 = 0
    package var quality = Report.Quality.exact

    package init(interval: Report.Interval, tlsBytes: UInt64 = 0, quality: Report.Quality = .exact) {
        (self.interval, self.tlsBytes, self.quality) = (interval, tlsBytes, quality)
    }
}

extension Report.Message {
    mutating func take(_ place: MessagePlace) {
        (self.interval, self.tlsBytes, self.quality) = (place.interval, place.tlsBytes, place.quality)
    }
}
