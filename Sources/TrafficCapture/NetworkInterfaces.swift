package import TrafficModel

/// The interfaces of the daemon's own network namespace with their link-layer counters.
package enum NetworkInterfaces {
    package static func read() -> [InterfaceUsage] {
        parse(text(ofFile: "/proc/net/dev") ?? "")
    }

    /// - Parameter text: `/proc/net/dev`: two header lines, then `name: rx bytes, packets, … (8 fields), tx bytes, packets, …`.
    static func parse(_ text: String) -> [InterfaceUsage] {
        text.split(separator: "\n").dropFirst(2).compactMap { line in
            guard let colon = line.lastIndex(of: ":") else { return nil }
            let fields = line[line.index(after: colon)...].split(separator: " ")
            guard fields.count >= 10, let received = UInt64(fields[0]), let sent = UInt64(fields[8]) else { return nil }
            return InterfaceUsage(
                name: String(line[..<colon]).trimmed,
                sentBytes: sent,
                receivedBytes: received,
                sentPackets: UInt64(fields[9]),
                receivedPackets: UInt64(fields[1])
            )
        }
    }
}
