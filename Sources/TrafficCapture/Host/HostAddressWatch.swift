public import TrafficEvents
import TrafficModel

/// Decides when to read the host's addresses again: every ten seconds, and in a round in which a socket is in an
/// unknown network namespace or has an unknown address of its own. So the connections of a new container are recognised
/// from their first byte on, unless there are so many namespaces that a reading takes longer than the round can wait.
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

        func isExplained(by host: HostAddresses) -> Bool {
            switch self {
            case .address(let address): host.addresses.contains(address)
            case .namespace(let inode): host.namespaces.contains(inode)
            }
        }
    }

    private let read: (_ begins: Bool) -> AddressReading?
    private var isReading = false
    /// Signs from before the reading that is under way.
    private var asked: Set<Sign> = []
    private var known = HostAddresses()
    private var signs: Set<Sign> = []
    /// Signs that a reading did not explain.
    private var vain: Set<Sign> = []
    private var nextPeriod: UInt64 = 0
    private var restsUntil: UInt64 = 0
    private var restsFromNewsUntil: UInt64 = 0

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel makes no thread for the readings.
    public init() throws(CaptureError) {
        let reader = try AddressReader()
        self.init { reader.read(begins: $0) }
    }

    /// - Parameter read: Begins a reading, or waits for the one that is under way; `nil`: it is not done yet.
    package init(reading read: @escaping (_ begins: Bool) -> AddressReading?) {
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

    /// Reads the addresses if a reading is due. If that takes long, a later call has the addresses.
    ///
    /// - Returns: `nil` if no reading is due or done, or if nothing changed.
    /// - Throws: ``CaptureError`` if the kernel does not answer. The known addresses stay, and a later call reads
    ///   again.
    public mutating func refresh() throws(CaptureError) -> CaptureEvent? {
        try self.refresh(now: MonotonicClock.nanoseconds())
    }

    package mutating func refresh(now: UInt64) throws(CaptureError) -> CaptureEvent? {
        let begins = !self.isReading
        if begins {
            guard self.isDue(at: now) else { return nil }
            (self.asked, self.signs) = (self.signs, [])
        }
        let reading = self.read(begins)
        self.isReading = reading == nil
        guard let reading else { return nil }
        // From the end, so that there is a pause after a reading that took longer than that.
        self.nextPeriod = now + Self.periodNanoseconds
        self.restsUntil = now +| reading.cost *| Self.restFactor
        self.restsFromNewsUntil = now +| reading.cost *| Self.newsRestFactor
        if self.vain.count > Self.signLimit { self.vain = [] }
        self.vain.formUnion(self.asked)
        let found = try reading.result.get()
        self.vain = self.vain.filter { !$0.isExplained(by: found) }
        // What came meanwhile needs no reading of its own if this one explains it.
        self.signs = self.signs.filter { !$0.isExplained(by: found) }
        let isNews = found.addresses != self.known.addresses
        self.known = found
        return isNews ? .hostAddresses(found.addresses) : nil
    }

    private func isDue(at now: UInt64) -> Bool {
        let hasNews = now >= self.restsFromNewsUntil && !self.signs.isSubset(of: self.vain)
        return hasNews || now >= self.restsUntil && !self.signs.isEmpty || now >= self.nextPeriod
    }
}
