import CLinux
import Glibc
public import TrafficModel

/// The addresses of this machine's interfaces, loopback and link-local ones included (rtnetlink(7), `RTM_GETADDR`).
package enum HostAddresses {
    /// Those of all network namespaces that a process lives in. A namespace that can't be asked is left out.
    ///
    /// Takes a few milliseconds where there are a thousand processes.
    package static func read() throws(CaptureError) -> Set<InternetAddress> {
        var addresses: Set<InternetAddress> = []
        try NetworkNamespaces.forEach { () throws(CaptureError) in
            // The socket goes at once: it would keep a container's namespace, and the interfaces in it, for as long as it is open.
            guard let netlink = try? NetlinkSocket(family: NETLINK_ROUTE, name: "rtnetlink") else { return }
            var found: Set<InternetAddress> = []
            let complete: Void? = try? netlink.dump(Request()) { bytes throws(CaptureError) in
                try HostAddresses.parse(bytes, into: &found)
            }
            if complete != nil { addresses.formUnion(found) }
        }
        return addresses
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

    /// - Parameter bytes: What one `recv` gave: any number of netlink messages.
    /// - Returns: Whether the dump is complete.
    package static func parse(
        _ bytes: RawSpan,
        into addresses: inout Set<InternetAddress>
    ) throws(CaptureError) -> Bool {
        try NetlinkMessages.forEach(in: bytes, name: "rtnetlink") { message throws(CaptureError) in
            if let address = try self.address(message) { addresses.insert(address) }
        }
    }

    /// - Returns: `nil` for another family's.
    private static func address(_ message: RawSpan) throws(CaptureError) -> InternetAddress? {
        let size = MemoryLayout<ifaddrmsg>.size
        guard message.byteCount >= size else { throw .malformed("ifaddrmsg of \(message.byteCount) bytes") }
        let family = Int32(message.unsafeLoadUnaligned(as: ifaddrmsg.self).ifa_family)
        guard family == AF_INET || family == AF_INET6 else { return nil }
        // On a point-to-point link IFA_ADDRESS is the other end's.
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

/// Knows when to ask for the host's addresses again: every ten seconds, and in the round in which a socket shows with an own address
/// that is not among them, so that a new container's connections are known for what they are from their first byte on.
public struct HostAddressWatch {
    private static let periodNanoseconds: UInt64 = 10_000_000_000
    /// After it was asked in vain (a transparent proxy's socket has a stranger's address, and a container may be gone again) the rest
    /// is so many times longer than the asking took: a hundredth of the time at most.
    private static let restFactor: UInt64 = 99

    private let read: () throws(CaptureError) -> Set<InternetAddress>
    private var known: Set<InternetAddress> = []
    /// Own addresses of sockets that no known interface has.
    private var unexplained: Set<InternetAddress> = []
    private var nextPeriod: UInt64 = 0
    private var restsUntil: UInt64 = 0

    public init() {
        self.init(reading: HostAddresses.read)
    }

    package init(reading read: @escaping () throws(CaptureError) -> Set<InternetAddress>) {
        self.read = read
    }

    /// Cheap: looks at a socket's own address.
    public mutating func notice(_ observation: SocketObservation) {
        let address = observation.local.address
        if self.known.contains(address) || address.isUnspecified || address.isLoopback { return }
        self.unexplained.insert(address)
    }

    /// Asks if it is time to.
    ///
    /// - Returns: `nil` where it is not, or where nothing changed.
    /// - Throws: ``CaptureError`` where the kernel does not tell; what was known stays, and it is asked again later.
    public mutating func refresh() throws(CaptureError) -> CaptureEvent? {
        try self.refresh(now: MonotonicClock.nanoseconds)
    }

    package mutating func refresh(now: () -> UInt64) throws(CaptureError) -> CaptureEvent? {
        let start = now()
        let wasAsked = !self.unexplained.isEmpty && start >= self.restsUntil
        guard wasAsked || start >= self.nextPeriod else { return nil }
        let unexplained = self.unexplained
        self.unexplained = []
        self.nextPeriod = start + Self.periodNanoseconds
        let result = Result { () throws(CaptureError) in try self.read() }
        let end = now()
        let isInVain = (try? result.get()).map { !unexplained.isSubset(of: $0) } ?? true
        self.restsUntil = isInVain ? end + (end - start) * Self.restFactor : end
        let addresses = try result.get()
        guard addresses != self.known else { return nil }
        self.known = addresses
        return .hostAddresses(addresses)
    }
}
