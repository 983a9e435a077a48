import CLinux
import Glibc
package import TrafficModel

/// The addresses of this machine's interfaces, loopback and link-local ones included (rtnetlink(7), `RTM_GETADDR`).
package struct HostAddresses: Sendable, Hashable {
    package var addresses: Set<InternetAddress> = []
    /// Inode numbers of the network namespaces that have these addresses.
    package var namespaces: Set<UInt32> = []

    package init(addresses: Set<InternetAddress> = [], namespaces: Set<UInt32> = []) {
        self.addresses = addresses
        self.namespaces = namespaces
    }

    /// Reads the addresses of all network namespaces that a process lives in or that are mounted. A namespace that can't be read is left
    /// out.
    ///
    /// Takes a few milliseconds with a thousand processes.
    package static func read() throws(CaptureError) -> HostAddresses {
        var result = HostAddresses()
        try NetworkNamespaces.forEach { () throws(CaptureError) in
            let empty: Set<InternetAddress> = []
            let found = try? Netlink.list(family: NETLINK_ROUTE, name: "rtnetlink", Request(), into: empty) {
                bytes,
                addresses throws(CaptureError) in
                try HostAddresses.parse(bytes, into: &addresses)
            }
            guard let found else { return }
            result.addresses.formUnion(found)
            if let inode = ProcessDirectory.networkNamespace(task: "thread-self") { result.namespaces.insert(inode) }
        }
        return result
    }

    private struct Request: BitwiseCopyable {
        var header = nlmsghdr()
        /// `AF_UNSPEC`: both families.
        var message = ifaddrmsg()

        init() {
            self.header.nlmsg_len = UInt32(MemoryLayout<Request>.size)
            self.header.nlmsg_type = UInt16(RTM_GETADDR)
            self.header.nlmsg_flags = UInt16(NLM_F_REQUEST | NLM_F_DUMP)
        }
    }

    /// - Parameter bytes: The result of one `recv`: any number of netlink messages.
    /// - Returns: Whether the dump is complete.
    package static func parse(
        _ bytes: RawSpan,
        into addresses: inout Set<InternetAddress>
    ) throws(CaptureError) -> Bool {
        try NetlinkMessages.forEach(in: bytes, name: "rtnetlink") { message throws(CaptureError) in
            if let address = try self.address(message) { addresses.insert(address) }
        }
    }

    /// - Returns: `nil` for an address of another family.
    private static func address(_ message: RawSpan) throws(CaptureError) -> InternetAddress? {
        let size = MemoryLayout<ifaddrmsg>.size
        guard message.byteCount >= size else { throw .malformed("ifaddrmsg of \(message.byteCount) bytes") }
        let family = Int32(message.unsafeLoadUnaligned(as: ifaddrmsg.self).ifa_family)
        guard family == AF_INET || family == AF_INET6 else { return nil }
        // On a point-to-point link IFA_ADDRESS is the address of the other end.
        let own = try NetlinkMessages.attribute(IFA_LOCAL, in: message, from: size)
        let other = try NetlinkMessages.attribute(IFA_ADDRESS, in: message, from: size)
        guard let range = own ?? other else { return nil }
        let isIPv6 = family == AF_INET6
        guard range.count == (isIPv6 ? 16 : 4) else { throw .malformed("address of \(range.count) bytes") }
        var address = InternetAddress(bytes: InlineArray(repeating: 0))
        if !isIPv6 { (address.bytes[10], address.bytes[11]) = (0xff, 0xff) }
        for (index, offset) in range.enumerated() {
            address.bytes[16 - range.count + index] = message.unsafeLoadUnaligned(
                fromByteOffset: offset,
                as: UInt8.self
            )
        }
        return address
    }
}
