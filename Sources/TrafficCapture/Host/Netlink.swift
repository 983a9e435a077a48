import CLinux
import Glibc

/// Asks the kernel for lists (netlink(7)).
enum Netlink {
    private static let attempts = 5

    /// Asks in the calling thread's network namespace. If the list changed during the reading, or if the kernel had no
    /// room for the list, this asks again, a few times.
    ///
    /// Each attempt uses a new socket. An old socket would keep its namespace alive, and unread parts of an earlier
    /// answer would be taken for this answer.
    ///
    /// - Parameters:
    ///   - family: `NETLINK_ROUTE` and so on.
    ///   - name: The name in error messages.
    ///   - request: A whole message: a `nlmsghdr` with `NLM_F_DUMP`, and its payload.
    ///   - empty: The start value of each attempt.
    ///   - take: Gets the result of one `recv`, any number of messages. Returns whether the list is complete.
    /// - Throws: ``CaptureError``; `EINTR` if the list changed each time.
    static func list<Items>(
        family: Int32,
        name: String,
        _ request: some BitwiseCopyable,
        into empty: Items,
        _ take: (RawSpan, inout Items) throws(CaptureError) -> Bool
    ) throws(CaptureError) -> Items {
        var attempt = 1
        while true {
            do throws(CaptureError) {
                var items = empty
                try self.dump(family: family, name: name, request) { bytes throws(CaptureError) in
                    try take(bytes, &items)
                }
                return items
            } catch {
                guard attempt < Self.attempts, error.passes else { throw error }
                attempt += 1
            }
        }
    }

    /// A socket that the kernel tells of changes (rtnetlink(7)), in the calling thread's network namespace. It does not block.
    ///
    /// - Parameter groups: `RTMGRP_LINK` and so on.
    static func subscription(groups: Int) throws(CaptureError) -> OwnedDescriptor {
        let type = Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let changes = OwnedDescriptor(
            owning: try check("socket", "rtnetlink") { socket(AF_NETLINK, type, NETLINK_ROUTE) }
        )
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        address.nl_groups = UInt32(groups)
        let length = socklen_t(MemoryLayout<sockaddr_nl>.size)
        try check("bind", "rtnetlink") {
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(changes.descriptor, $0, length) }
            }
        }
        return changes
    }

    private static func dump(
        family: Int32,
        name: String,
        _ request: some BitwiseCopyable,
        _ take: (RawSpan) throws(CaptureError) -> Bool
    ) throws(CaptureError) {
        let handle = OwnedDescriptor(
            owning: try check("socket", name) {
                socket(AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), family)
            }
        )
        try check("send", name) {
            withUnsafeBytes(of: request) { send(handle.descriptor, $0.baseAddress, $0.count, 0) }
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 8)
        defer { buffer.deallocate() }
        while true {
            let count = try check("recv", name) { recv(handle.descriptor, buffer.baseAddress, buffer.count, 0) }
            if try take(RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[0..<count]))) { return }
        }
    }
}

extension CaptureError {
    /// Whether the same request may succeed if it is repeated at once.
    fileprivate var passes: Bool {
        guard case .system(_, _, let number) = self else { return false }
        return [EINTR, EAGAIN, EBUSY, ENOBUFS, ENOMEM].contains(number)
    }
}

/// The layout of netlink messages and of their attributes.
enum NetlinkMessages {
    /// - Parameters:
    ///   - name: The name in error messages.
    ///   - body: Gets the payload after each message's header.
    /// - Returns: Whether the dump is complete.
    static func forEach(
        in bytes: RawSpan,
        name: String,
        _ body: (RawSpan) throws(CaptureError) -> Void
    ) throws(CaptureError) -> Bool {
        try self.forEach(in: bytes, name: name) { _, message throws(CaptureError) in try body(message) }
    }

    /// The same, where messages have several types, such as `RTM_DELLINK`.
    static func forEach(
        in bytes: RawSpan,
        name: String,
        _ body: (_ type: Int, RawSpan) throws(CaptureError) -> Void
    ) throws(CaptureError) -> Bool {
        let headerSize = MemoryLayout<nlmsghdr>.size
        var offset = 0
        while bytes.byteCount - offset >= headerSize {
            let header = bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: nlmsghdr.self)
            let length = Int(header.nlmsg_len)
            guard length >= headerSize, length <= bytes.byteCount - offset else {
                throw .malformed("netlink message of \(length) bytes in \(bytes.byteCount - offset)")
            }
            // The list changed between two parts of the dump: an item may be missing or may appear twice.
            guard header.nlmsg_flags & UInt16(NLM_F_DUMP_INTR) == 0 else {
                throw .system(call: "dump", object: name, errno: EINTR)
            }
            let payload = bytes.extracting(offset + headerSize..<offset + length)
            switch Int32(header.nlmsg_type) {
            case NLMSG_DONE:
                return true
            case NLMSG_ERROR:
                let number = payload.byteCount >= 4 ? payload.unsafeLoadUnaligned(as: Int32.self) : -EPROTO
                // A real errno always has a negation, but these bytes come from outside, so the subtraction must not
                // trap.
                throw .system(call: "dump", object: name, errno: 0 &- number)
            default:
                try body(Int(header.nlmsg_type), payload)
            }
            offset += (length + 3) & ~3
        }
        return false
    }

    /// The range of the attribute of that type (rtnetlink(3)), or `nil`.
    static func attribute(_ type: Int, in message: RawSpan, from start: Int) throws(CaptureError) -> Range<Int>? {
        var offset = start
        while message.byteCount - offset >= 4 {
            let length = Int(message.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt16.self))
            guard length >= 4, length <= message.byteCount - offset else {
                throw .malformed("netlink attribute of \(length) bytes in \(message.byteCount - offset)")
            }
            if Int(message.unsafeLoadUnaligned(fromByteOffset: offset + 2, as: UInt16.self)) == type {
                return offset + 4..<offset + length
            }
            offset += (length + 3) & ~3
        }
        return nil
    }
}
