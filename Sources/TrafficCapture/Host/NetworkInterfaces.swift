import CLinux
package import TrafficModel

/// The interfaces of the daemon's own network namespace, with the interfaces' own counters (rtnetlink(7),
/// `RTM_GETLINK`).
package struct NetworkInterfaces {
    /// Inode number of the namespace.
    package let networkNamespace: UInt32?

    package init() {
        self.networkNamespace = ProcessDirectory.networkNamespace(task: "thread-self")
    }

    /// Reads the interfaces. The calling thread must be in the namespace in which this value was made.
    package func read() throws(CaptureError) -> [InterfaceUsage] {
        let empty: [InterfaceUsage] = []
        return try Netlink.list(family: NETLINK_ROUTE, name: "rtnetlink", Request(), into: empty) {
            bytes,
            usages throws(CaptureError) in
            try NetworkInterfaces.parse(bytes, networkNamespace: self.networkNamespace, into: &usages)
        }
    }

    private struct Request: BitwiseCopyable {
        var header = nlmsghdr()
        var message = ifinfomsg()

        init() {
            self.header.nlmsg_len = UInt32(MemoryLayout<Request>.size)
            self.header.nlmsg_type = UInt16(RTM_GETLINK)
            self.header.nlmsg_flags = UInt16(NLM_F_REQUEST | NLM_F_DUMP)
        }
    }

    /// - Parameter bytes: The result of one `recv`: any number of netlink messages.
    /// - Returns: Whether the dump is complete.
    static func parse(
        _ bytes: RawSpan,
        networkNamespace: UInt32?,
        into usages: inout [InterfaceUsage]
    ) throws(CaptureError) -> Bool {
        try NetlinkMessages.forEach(in: bytes, name: "rtnetlink") { message throws(CaptureError) in
            if let usage = try self.usage(message, networkNamespace) { usages.append(usage) }
        }
    }

    /// - Returns: `nil` for an interface without counters.
    private static func usage(_ message: RawSpan, _ networkNamespace: UInt32?) throws(CaptureError) -> InterfaceUsage? {
        let size = MemoryLayout<ifinfomsg>.size
        guard message.byteCount >= size else { throw .malformed("ifinfomsg of \(message.byteCount) bytes") }
        let head = message.unsafeLoadUnaligned(as: ifinfomsg.self)
        guard let name = try NetlinkMessages.attribute(IFLA_IFNAME, in: message, from: size),
            let counters = try NetlinkMessages.attribute(IFLA_STATS64, in: message, from: size), counters.count >= 32
        else { return nil }
        // struct rtnl_link_stats64 begins with packets received and sent, then bytes received and sent.
        let stats = message.extracting(counters)
        return InterfaceUsage(
            name: message.extracting(name).withUnsafeBytes { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) },
            sentBytes: stats.unsafeLoadUnaligned(fromByteOffset: 24, as: UInt64.self),
            receivedBytes: stats.unsafeLoadUnaligned(fromByteOffset: 16, as: UInt64.self),
            sentPackets: stats.unsafeLoadUnaligned(fromByteOffset: 8, as: UInt64.self),
            receivedPackets: stats.unsafeLoadUnaligned(fromByteOffset: 0, as: UInt64.self),
            networkNamespace: networkNamespace,
            index: UInt32(bitPattern: head.ifi_index),
            linkHeaderLength: head.ifi_type == ARPHRD_ETHER ? 14 : 0  // lo removes the header before counting
        )
    }
}
