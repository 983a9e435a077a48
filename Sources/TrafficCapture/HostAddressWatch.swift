public import TrafficModel

/// Knows when to ask for the host's addresses again: every ten seconds, and in the round in which a socket shows that is in a network
/// namespace, or has an address of its own, that nobody knew of, so that a new container's connections are known for what they are
/// from their first byte on.
public struct HostAddressWatch {
    private static let periodNanoseconds: UInt64 = 10_000_000_000
    /// A sign that asking did not explain (a transparent proxy's address, a container that is gone) is asked about again only after this many
    /// times the cost of asking: a hundredth of the time at most.
    private static let restFactor: UInt64 = 100
    /// The same for signs not asked about yet: a fifth of the time. Anybody may bind to any number of addresses that no interface has
    /// (IP_FREEBIND, ip(7)).
    private static let newsRestFactor: UInt64 = 5
    /// How many signs, and how many of those in vain, are remembered.
    private static let signLimit = 4_096

    /// What shows that there is more than is known.
    private enum Sign: Hashable {
        case address(InternetAddress)
        case namespace(UInt32)
    }

    private let read: () throws(CaptureError) -> HostAddresses
    private var known = HostAddresses()
    private var signs: Set<Sign> = []
    /// Signs that asking did not explain.
    private var vain: Set<Sign> = []
    private var nextPeriod: UInt64 = 0
    private var restsUntil: UInt64 = 0
    private var restsFromNewsUntil: UInt64 = 0

    public init() {
        self.init(reading: HostAddresses.read)
    }

    package init(reading read: @escaping () throws(CaptureError) -> HostAddresses) {
        self.read = read
    }

    /// Cheap: looks at a socket's own address and namespace.
    public mutating func notice(_ observation: SocketObservation) {
        guard self.signs.count < Self.signLimit else { return }
        let namespace = observation.networkNamespace
        if namespace != 0 && !self.known.namespaces.contains(namespace) { self.signs.insert(.namespace(namespace)) }
        let address = observation.local.address
        if self.known.addresses.contains(address) || address.isUnspecified || address.isLoopback { return }
        self.signs.insert(.address(address))
    }

    /// Asks if it is time to.
    ///
    /// - Returns: `nil` where it is not, or where nothing changed.
    /// - Throws: ``CaptureError`` where the kernel does not tell; what was known stays, and it is asked again later.
    public mutating func refresh() throws(CaptureError) -> CaptureEvent? {
        try self.refresh(now: MonotonicClock.nanoseconds, processorTime: MonotonicClock.threadNanoseconds)
    }

    /// - Parameter processorTime: What asking costs; the clock would count other programs' time too.
    package mutating func refresh(
        now: () -> UInt64,
        processorTime: () -> UInt64
    ) throws(CaptureError) -> CaptureEvent? {
        let time = now()
        let hasNews = time >= self.restsFromNewsUntil && !self.signs.isSubset(of: self.vain)
        let isAsked = hasNews || time >= self.restsUntil && !self.signs.isEmpty
        guard isAsked || time >= self.nextPeriod else { return nil }
        self.nextPeriod = time + Self.periodNanoseconds
        let begin = processorTime()
        let result = Result { () throws(CaptureError) in try self.read() }
        let cost = processorTime() -| begin
        self.restsUntil = time +| cost *| Self.restFactor
        self.restsFromNewsUntil = time +| cost *| Self.newsRestFactor
        if self.vain.count > Self.signLimit { self.vain = [] }
        self.vain.formUnion(self.signs)
        self.signs = []
        let found = try result.get()
        self.vain = self.vain.filter { sign in
            switch sign {
            case .address(let address): !found.addresses.contains(address)
            case .namespace(let inode): !found.namespaces.contains(inode)
            }
        }
        let isNews = found.addresses != self.known.addresses
        self.known = found
        return isNews ? .hostAddresses(found.addresses) : nil
    }
}
