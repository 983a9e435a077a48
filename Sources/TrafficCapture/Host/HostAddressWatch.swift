public import TrafficModel

/// Decides when to read the host's addresses again: every ten seconds, and in a round in which a socket is in an
/// unknown network namespace or has an unknown address of its own. So the connections of a new container are recognised
/// from their first byte on.
public struct HostAddressWatch {
    private static let periodNanoseconds: UInt64 = 10_000_000_000
    /// Some signs stay unexplained after a reading (the address of a transparent proxy, a container that is gone). For
    /// such signs the next reading waits this many times the cost of the last one: a hundredth of the time at most.
    private static let restFactor: UInt64 = 100
    /// The same for new signs: a fifth of the time at most. Any user may bind to any number of addresses that no
    /// interface has (IP_FREEBIND, ip(7)).
    private static let newsRestFactor: UInt64 = 5
    /// How many signs are remembered, and how many unexplained signs.
    private static let signLimit = 4_096

    /// A sign that there are unknown addresses or namespaces.
    private enum Sign: Hashable {
        case address(InternetAddress)
        case namespace(UInt32)
    }

    private let read: () throws(CaptureError) -> HostAddresses
    private var known = HostAddresses()
    private var signs: Set<Sign> = []
    /// Signs that a reading did not explain.
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

    /// Checks a socket's own address and namespace. Cheap.
    public mutating func notice(_ observation: SocketObservation) {
        guard self.signs.count < Self.signLimit else { return }
        let namespace = observation.networkNamespace
        if namespace != 0 && !self.known.namespaces.contains(namespace) { self.signs.insert(.namespace(namespace)) }
        let address = observation.local.address
        if self.known.addresses.contains(address) || address.isUnspecified || address.isLoopback { return }
        self.signs.insert(.address(address))
    }

    /// Reads the addresses if a reading is due.
    ///
    /// - Returns: `nil` if no reading is due, or if nothing changed.
    /// - Throws: ``CaptureError`` if the kernel does not answer. The known addresses stay, and a later call reads
    ///   again.
    public mutating func refresh() throws(CaptureError) -> CaptureEvent? {
        try self.refresh(now: MonotonicClock.nanoseconds, processorTime: MonotonicClock.threadNanoseconds)
    }

    /// - Parameter processorTime: Measures the cost of a reading. Wall-clock time would include the time of other
    ///   processes.
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
