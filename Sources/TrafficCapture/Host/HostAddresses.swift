import CLinux
import Glibc
public import TrafficEvents
package import TrafficModel

/// The addresses of the interfaces in the daemon's network namespace, loopback and link-local ones included
/// (rtnetlink(7), `RTM_GETADDR`). Other namespaces are not entered: that a container is on this machine shows in the
/// sockets at both ends of its connections.
public final class HostAddresses {
    /// The kernel tells this socket of each address that comes or goes.
    private let changes: OwnedDescriptor
    private var known: Set<InternetAddress>?
    private var isStale = true

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if there is no netlink socket.
    public init() throws(CaptureError) {
        self.changes = try Netlink.subscription(groups: Int(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR))
    }

    private static let name = "rtnetlink"

    /// Reads the addresses, at the first call and after each change.
    ///
    /// - Returns: `nil` if nothing changed.
    /// - Throws: ``CaptureError`` if the kernel does not answer. The known addresses stay, and the next call reads again.
    public func refresh() throws(CaptureError) -> CaptureEvent? {
        // Before the reading, so that no change is lost between the two.
        self.noteChanges()
        guard self.isStale else { return nil }
        let found = try Self.read()
        self.isStale = false
        defer { self.known = found }
        return found == self.known ? nil : .hostAddresses(found)
    }

    /// What has changed does not matter. The kernel drops what the socket has no room for, and says so once (ENOBUFS).
    private func noteChanges() {
        var byte: UInt8 = 0
        // Some may be left. Then the next call reads once more.
        for _ in 0..<1_000 {
            guard recv(self.changes.descriptor, &byte, 1, 0) >= 0 || errno == ENOBUFS || errno == EINTR else { return }
            self.isStale = true
        }
    }

    package static func read() throws(CaptureError) -> Set<InternetAddress> {
        try Netlink.list(family: NETLINK_ROUTE, name: self.name, Request(), into: []) {
            bytes,
            addresses throws(CaptureError) in
            try self.parse(bytes, into: &addresses)
        }
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
        try NetlinkMessages.forEach(in: bytes, name: self.name) { message throws(CaptureError) in
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
