/// A time as the clock of the host showed it: `2026-10-25T02:00:00+02:00` (RFC 3339, with the offset from UTC).
///
/// Hours, days and months of history are those of the host, and readers elsewhere show the same dates.
public struct HostTime: Sendable, Hashable {
    public let description: String

    /// - Parameter offset: Seconds east of UTC. RFC 3339 knows whole minutes alone.
    package init(_ time: Timestamp, offset: Int64) {
        let local = Timestamp(nanosecondsSinceEpoch: time.nanosecondsSinceEpoch +| offset *| 1_000_000_000)
        let minutes = offset.magnitude / 60
        func two(_ number: UInt64) -> String { (number < 10 ? "0" : "") + String(number) }
        let sign = offset < 0 ? "-" : "+"
        self.description = local.description.prefix(19) + "\(sign)\(two(minutes / 60)):\(two(minutes % 60))"
    }

    /// `2026-10`.
    public var month: String { String(self.description.prefix(7)) }

    /// `2026-10-25`.
    public var day: String { String(self.description.prefix(10)) }

    /// `2026-10-25 02:00`.
    public var minute: String { "\(self.day) \(self.description.dropFirst(11).prefix(5))" }

    /// `+02:00`.
    public var offset: String { String(self.description.dropFirst(19)) }
}

extension HostTime: Codable, CustomStringConvertible {
    /// - Throws: `DecodingError.dataCorrupted` for a text of another form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard text.utf8.count == 25, Timestamp(rfc3339: text) != nil else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a time of a host: \(text)")
        }
        self.description = text
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}
