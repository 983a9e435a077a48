import CLinux
import Glibc
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
    fileprivate static func usage(
        _ message: RawSpan,
        _ networkNamespace: UInt32?
    ) throws(CaptureError) -> InterfaceUsage? {
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

/// The last counters of interfaces that went, in the network namespace in which this was made. The kernel tells them when it
/// removes an interface, or when the interface moves to another namespace.
package final class InterfaceEnds {
    private let changes: OwnedDescriptor
    private let networkNamespace: UInt32?
    /// Room for some hundred messages. Without it, container engines could overrun the usual room between two sweeps.
    private static let room: Int32 = 4 << 20

    /// - Parameter networkNamespace: Its inode number.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if there is no netlink socket.
    package init(networkNamespace: UInt32?) throws(CaptureError) {
        self.networkNamespace = networkNamespace
        self.changes = try Netlink.subscription(groups: Int(RTMGRP_LINK))
        var room = Self.room
        let length = socklen_t(MemoryLayout<Int32>.size)
        // More than the usual limit needs a right that the daemon may lack: then it gets as much as anybody.
        if setsockopt(self.changes.descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &room, length) != 0 {
            setsockopt(self.changes.descriptor, SOL_SOCKET, SO_RCVBUF, &room, length)
        }
    }

    /// Those that went since the last call.
    ///
    /// - Throws: ``CaptureError``; `ENOBUFS` if there was no room for some: their last bytes are in no sum.
    package func take(_ body: (InterfaceUsage) -> Void) throws(CaptureError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 8)
        defer { buffer.deallocate() }
        var fault: CaptureError?
        while true {
            let count = recv(self.changes.descriptor, buffer.baseAddress, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { break }
            if count < 0 {
                let number = errno
                fault = .system(call: "recv", object: "rtnetlink", errno: number)
                guard number == ENOBUFS else { break }
                continue
            }
            let bytes = RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[0..<count]))
            _ = try NetlinkMessages.forEach(in: bytes, name: "rtnetlink") { type, message throws(CaptureError) in
                // A bridge says so of each port that leaves it, in a family of its own.
                guard type == Int(RTM_DELLINK), message.byteCount >= MemoryLayout<ifinfomsg>.size,
                    message.unsafeLoadUnaligned(as: ifinfomsg.self).ifi_family == 0,
                    let usage = try NetworkInterfaces.usage(message, self.networkNamespace)
                else { return }
                body(usage)
            }
        }
        if let fault { throw fault }
    }
}
