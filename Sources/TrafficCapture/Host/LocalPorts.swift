/// The ports that the kernel gives to sockets that did not ask for one (ip(7)), in the network namespace of this process.
package enum LocalPorts {
    /// Read once: who changes it later restarts the daemon.
    ///
    /// - Returns: The kernel's default if the file can't be read.
    package static func range() -> ClosedRange<UInt16> {
        let bytes = contents(ofFile: "/proc/sys/net/ipv4/ip_local_port_range") ?? []
        return self.range(in: String(decoding: bytes, as: UTF8.self)) ?? 32_768...60_999
    }

    static func range(in text: String) -> ClosedRange<UInt16>? {
        let ports = text.split(whereSeparator: \.isWhitespace).compactMap { UInt16($0) }
        guard ports.count == 2, ports[0] <= ports[1] else { return nil }
        return ports[0]...ports[1]
    }
}
