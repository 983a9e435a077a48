public import TrafficModel

/// What a capture method tells the ledger. Totals are cumulative. So an event that comes twice, late or never may delay
/// a number, but does not change it.
public enum CaptureEvent: Sendable, Hashable, Codable {
    case socket(SocketObservation)
    /// Bytes that moved without a record of their socket. Comes once for each generation of rows.
    case rows(FoldedRows)
    /// The serials of sockets that closed without a record. Rows have what these sockets moved since their last
    /// observation.
    case closedWithoutRecord([UInt64])
    /// Sockets, by serial, that were missing in ``censusesUntilClosed`` sweeps in a row. Each such sweep reports all
    /// sockets of their kind.
    case missing([UInt64])
    /// A census of the sockets that are open. A socket that it covers and that is missing ``censusesUntilClosed`` times
    /// in a row counts as closed, even if nothing said that it closed.
    case census(SocketCensus)
    /// All sockets that others hold than the first process that used them, or others too, at this moment.
    case holders([SocketHolders])
    case details(ProcessIdentity, ProcessDetails)
    /// Users who have these names from now on; `nil`: none any more.
    case usersNamed([UInt32: String?])
    /// A process runs another program.
    case executed(ProcessIdentity, Execution)
    /// So many processes executed programs at once that there was no room for an event for each. Any process may have
    /// another name now.
    case executionsMissed
    case exited(ProcessIdentity, at: Timestamp)
    case interfaces([InterfaceUsage])
    /// Interfaces that went since the last event, with their last counters.
    case interfacesGone([InterfaceUsage])
    /// Every interface that packets passed, in every network namespace. An interface may be absent, or its numbers may
    /// be lower than in the last event. Then its earlier numbers have been added to the row of network namespace 0,
    /// which has the interfaces that are gone.
    case packets([InterfacePackets])
    /// The addresses of all interfaces in the daemon's network namespace: all addresses, not only changes.
    case hostAddresses(Set<InternetAddress>)
    case loss(CaptureLoss)
    /// What cooperating programs sent before the round of observations that this event ends, and how many datagrams
    /// found no room since the start.
    case reports([ReceivedReport], dropped: UInt64)
    /// Ends a round of observations: the ledger computes rates, and folds what is old.
    case tick(at: Timestamp, boottimeNanoseconds: UInt64)
    /// Ends a round between two ticks, because a reader asked. Rates stay those of the last tick. Over a few
    /// milliseconds they would be noise.
    case look(at: Timestamp, boottimeNanoseconds: UInt64)

    /// A census goes on by position, so it may pass over a socket when another socket goes away meanwhile. It does not
    /// pass over the same socket this often in a row.
    public static let censusesUntilClosed = 3
}

/// A list of sockets in which none of the sockets that it covers is missing, except by accident.
public struct SocketCensus: Sendable, Hashable, Codable {
    public var serials: Set<UInt64>
    /// The census covers the TCP and UDP sockets of these network namespaces; `nil`: all sockets.
    public var namespaces: Set<UInt32>?

    public init(_ serials: Set<UInt64>, namespaces: Set<UInt32>? = nil) {
        (self.serials, self.namespaces) = (serials, namespaces)
    }

    public func covers(_ transport: TransportProtocol, in namespace: UInt32) -> Bool {
        guard let namespaces else { return true }
        return (transport == .tcp || transport == .udp) && namespaces.contains(namespace)
    }
}

/// execve(2): a process runs another program since then.
public struct Execution: Sendable, Hashable, Codable {
    public var name: String
    /// As whom the process runs it.
    public var uid: UInt32
    /// `CLOCK_BOOTTIME`.
    public var boottimeNanoseconds: UInt64

    public init(name: String, uid: UInt32, boottimeNanoseconds: UInt64) {
        (self.name, self.uid, self.boottimeNanoseconds) = (name, uid, boottimeNanoseconds)
    }
}

/// Which processes have a descriptor of a socket.
public struct SocketHolders: Sendable, Hashable, Codable {
    public var serial: UInt64
    /// Without the first process that used the socket.
    public var others: [OwnerObservation]
    /// Whether that process holds it too.
    public var isHeldByFirst: Bool
    /// Whether no holder is missing for want of room.
    public var isComplete: Bool

    public init(serial: UInt64, others: [OwnerObservation], isHeldByFirst: Bool, isComplete: Bool = true) {
        (self.serial, self.others) = (serial, others)
        (self.isHeldByFirst, self.isComplete) = (isHeldByFirst, isComplete)
    }
}

/// A socket as the kernel had it at one moment.
public struct SocketObservation: Sendable, Hashable, Codable {
    /// Unique among the sockets of one capture. The cookie is not unique: accepted MPTCP sockets have their listener's
    /// cookie.
    public var serial: UInt64
    public var cookie: SocketCookie
    public var transport: TransportProtocol
    public var family: AddressFamily
    public var local: SocketAddress
    public var remote: SocketAddress
    public var role: SocketRole
    public var state: SocketState
    /// `CLOCK_BOOTTIME`; `nil` if the socket is older than the capture.
    public var openedBoottimeNanoseconds: UInt64?
    /// `nil` while the socket is open.
    public var closedBoottimeNanoseconds: UInt64?
    /// When a client's socket connected for the last time; `nil` if it has not connected, or if nothing saw it connect.
    public var connect: ConnectTimes?
    public var preexisting: Bool
    public var networkNamespace: UInt32
    public var tcp: TCPCounters?
    /// See ``ByteCounts/pendingSent``; `nil` if the capture method counts such bytes as sent.
    public var pendingSent: UInt64?
    /// `nil` if packets are not seen, and wire bytes can't be derived.
    public var wire: SocketWire?
    /// TCP's own account of the stream; `nil` for other protocols.
    public var stream: TCPStream?
    public var owners: [OwnerObservation]
    /// Payload whose process is not known.
    public var unowned: PayloadBytes
    /// Payload of processes for which the socket had no room besides its other owners. ``CaptureEvent/rows(_:)`` counts
    /// it.
    public var inRows: PayloadBytes?
    /// The user who made the socket; `nil` if the user is not known.
    public var uid: UInt32?
    /// The number of this observation among those of the socket: an earlier one may come after a later one. `nil`: they
    /// come in order.
    public var record: UInt32?
    /// Several processes held the socket, and no call told which of them moved its bytes: one has them all. `nil`: the
    /// owners are known.
    public var ownersInferred: Bool?

    /// - Parameter serial: `nil` if cookies alone identify the sockets.
    public init(
        serial: UInt64? = nil,
        cookie: SocketCookie,
        transport: TransportProtocol,
        family: AddressFamily,
        local: SocketAddress,
        remote: SocketAddress,
        role: SocketRole,
        state: SocketState,
        openedBoottimeNanoseconds: UInt64? = nil,
        closedBoottimeNanoseconds: UInt64? = nil,
        connect: ConnectTimes? = nil,
        preexisting: Bool = false,
        networkNamespace: UInt32 = 0,
        tcp: TCPCounters? = nil,
        pendingSent: UInt64? = nil,
        wire: SocketWire? = nil,
        stream: TCPStream? = nil,
        owners: [OwnerObservation] = [],
        unowned: PayloadBytes = PayloadBytes(),
        inRows: PayloadBytes? = nil,
        uid: UInt32? = nil,
        record: UInt32? = nil,
        ownersInferred: Bool? = nil
    ) {
        self.serial = serial ?? cookie.rawValue
        self.cookie = cookie
        self.transport = transport
        self.family = family
        self.local = local
        self.remote = remote
        self.role = role
        self.state = state
        self.openedBoottimeNanoseconds = openedBoottimeNanoseconds
        self.closedBoottimeNanoseconds = closedBoottimeNanoseconds
        self.connect = connect
        self.preexisting = preexisting
        self.networkNamespace = networkNamespace
        self.tcp = tcp
        self.pendingSent = pendingSent
        self.wire = wire
        self.stream = stream
        self.owners = owners
        self.unowned = unowned
        self.inRows = inRows
        self.uid = uid
        self.record = record
        self.ownersInferred = ownersInferred
    }

    /// Whether the kernel made this observation before the other one of the same socket.
    public func isOlder(than other: SocketObservation) -> Bool {
        guard let record, let known = other.record else { return false }
        return record < known
    }
}

/// The time of a connection's handshake, from `SYN_SENT` to `ESTABLISHED`, as the client's kernel had it.
/// `CLOCK_BOOTTIME`, nanoseconds.
public struct ConnectTimes: Sendable, Hashable, Codable {
    /// A moment before the first SYN went out.
    public var beganAt: UInt64
    /// A moment when the answer to a SYN had come.
    public var endedAt: UInt64

    /// - Returns: `nil` for impossible times.
    public init?(beganAt: UInt64, endedAt: UInt64) {
        guard beganAt <= endedAt else { return nil }
        (self.beganAt, self.endedAt) = (beganAt, endedAt)
    }

    /// In nanoseconds.
    public var duration: UInt64 { self.endedAt - min(self.beganAt, self.endedAt) }
}

/// The kernel's own counters of a TCP connection (`struct tcp_sock`), over its whole life.
public struct TCPCounters: Sendable, Hashable, Codable {
    public var retransmittedBytes: UInt64
    public var retransmittedSegments: UInt64
    public var segmentsSent: UInt64
    public var segmentsReceived: UInt64
    public var smoothedRoundTripMicroseconds: UInt64

    public init(
        retransmittedBytes: UInt64 = 0,
        retransmittedSegments: UInt64 = 0,
        segmentsSent: UInt64 = 0,
        segmentsReceived: UInt64 = 0,
        smoothedRoundTripMicroseconds: UInt64 = 0
    ) {
        self.retransmittedBytes = retransmittedBytes
        self.retransmittedSegments = retransmittedSegments
        self.segmentsSent = segmentsSent
        self.segmentsReceived = segmentsReceived
        self.smoothedRoundTripMicroseconds = smoothedRoundTripMicroseconds
    }
}

/// One process's use of one socket, with what the kernel knew of the process when the process first used the socket.
public struct OwnerObservation: Sendable, Hashable, Codable {
    public var identity: ProcessIdentity
    public var name: String
    public var uid: UInt32
    public var cgroupID: UInt64
    public var isKernelThread: Bool
    public var payload: PayloadBytes

    public init(
        identity: ProcessIdentity,
        name: String,
        uid: UInt32 = 0,
        cgroupID: UInt64 = 0,
        isKernelThread: Bool = false,
        payload: PayloadBytes = PayloadBytes()
    ) {
        self.identity = identity
        self.name = name
        self.uid = uid
        self.cgroupID = cgroupID
        self.isKernelThread = isKernelThread
        self.payload = payload
    }
}

extension OwnerObservation {
    /// The process's name as it is shown. Kernel threads that do the same work on other processors have one name:
    /// `kworker/0:1` and `kworker/u4:2` are `kernel:kworker`.
    public var displayName: String {
        guard self.isKernelThread else { return self.name }
        return self.identity == .kernel ? "kernel" : "kernel:\(self.name.prefix { $0 != "/" })"
    }
}
