import CLinux
import Glibc

/// A netlink socket (netlink(7)) to ask the kernel for lists.
struct NetlinkSocket: ~Copyable {
    private let handle: FileHandle
    /// For messages of errors.
    private let name: String

    /// Opens it in the calling thread's network namespace; it stays there, and keeps that namespace from going away.
    init(family: Int32, name: String) throws(CaptureError) {
        self.name = name
        self.handle = FileHandle(
            owning: try check("socket", name) {
                socket(AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), family)
            }
        )
    }

    /// - Parameters:
    ///   - request: A whole message: a `nlmsghdr` with `NLM_F_DUMP` and what follows it.
    ///   - take: Gets what one `recv` gave, any number of messages, and says whether the dump is complete.
    func dump(
        _ request: some BitwiseCopyable,
        _ take: (RawSpan) throws(CaptureError) -> Bool
    ) throws(CaptureError) {
        try check("send", self.name) {
            withUnsafeBytes(of: request) { send(self.handle.descriptor, $0.baseAddress, $0.count, 0) }
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 8)
        defer { buffer.deallocate() }
        while true {
            let count = try check("recv", self.name) {
                recv(self.handle.descriptor, buffer.baseAddress, buffer.count, 0)
            }
            if try take(RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[0..<count]))) { return }
        }
    }
}

/// The layout of netlink messages and of their attributes.
enum NetlinkMessages {
    /// - Parameters:
    ///   - name: For messages of errors.
    ///   - body: Gets what follows each message's header.
    /// - Returns: Whether the dump is complete.
    static func forEach(
        in bytes: RawSpan,
        name: String,
        _ body: (RawSpan) throws(CaptureError) -> Void
    ) throws(CaptureError) -> Bool {
        let headerSize = MemoryLayout<nlmsghdr>.size
        var offset = 0
        while bytes.byteCount - offset >= headerSize {
            let header = bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: nlmsghdr.self)
            let length = Int(header.nlmsg_len)
            guard length >= headerSize, length <= bytes.byteCount - offset else {
                throw .malformed("netlink message of \(length) bytes in \(bytes.byteCount - offset)")
            }
            let payload = bytes.extracting(offset + headerSize..<offset + length)
            switch Int32(header.nlmsg_type) {
            case NLMSG_DONE:
                return true
            case NLMSG_ERROR:
                let number = payload.byteCount >= 4 ? payload.unsafeLoadUnaligned(as: Int32.self) : -EPROTO
                // An errno is never so small that it has no opposite, but these are bytes from elsewhere.
                throw .system(call: "dump", object: name, errno: 0 &- number)
            default:
                try body(payload)
            }
            offset += (length + 3) & ~3
        }
        return false
    }

    /// Where the attribute of that type stands (rtnetlink(3)), or `nil`.
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
