/// One socket and its bytes since the later of ``Snapshot/countingSince`` and its opening.
public struct SocketUsage: Sendable, Decodable, Hashable {
    /// A process that moved bytes over the socket, made it, or holds it.
    public struct Owner: Sendable, Decodable, Hashable {
        public var identity: ProcessIdentity
        /// The process's share.
        public var payload: PayloadBytes
        /// The process has ended or closed its descriptors: other processes hold the socket, or none does.
        public var isFormer = false
        /// The process's part of the packets. Not in the JSON.
        public var wire = WireTotals()

        public init(identity: ProcessIdentity, payload: PayloadBytes, wire: WireTotals = WireTotals()) {
            self.identity = identity
            self.payload = payload
            self.wire = wire
        }

        public init(from decoder: any Decoder) throws {
            self.identity = try ProcessIdentity(from: decoder)
            self.payload = try PayloadBytes(from: decoder)
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.isFormer = try container.decodeIfPresent(Bool.self, forKey: .isFormer) ?? false
        }

        package enum CodingKeys: String, CodingKey {
            case isFormer = "former"
        }
    }

    /// Who stands for the socket where there is room for one: who holds it, and then who moved most.
    public var mainOwner: Owner? {
        self.owners.max { ($0.isFormer ? 0 : 1, $0.payload.total) < ($1.isFormer ? 0 : 1, $1.payload.total) }
    }

    /// Unique among the sockets that this daemon has seen, in the order in which it first saw them.
    public var serial: UInt64
    /// `SO_COOKIE`. Accepted MPTCP sockets have their listener's cookie.
    public var cookie: SocketCookie
    public var transport: TransportProtocol
    public var family: AddressFamily
    public var local: SocketAddress
    public var remote: SocketAddress
    public var role: SocketRole
    /// `nil` for a socket without a remote address.
    public var scope: SocketScope?
    /// The name of the class that the remote address is in (``AddressClasses``), if it is in a class.
    public var addressClass: String?
    public var state: SocketState
    /// `nil` for a socket older than the daemon.
    public var openedAt: Timestamp?
    public var closedAt: Timestamp?
    /// The socket is older than the daemon. It is counted from a baseline on.
    public var preexisting: Bool
    public var networkNamespace: UInt32?
    public var bytes: ByteCounts
    public var rates: PayloadRates
    /// TCP: `tcp_sock.segs_out` and `segs_in`, over the life of the connection.
    public var segmentsSent: UInt64?
    public var segmentsReceived: UInt64?
    /// TCP: segments sent again (`tcp_sock.total_retrans`), over the life of the connection.
    public var retransmittedSegments: UInt64?
    /// TCP: smoothed round-trip time (RFC 6298), 0 before the first measurement.
    public var smoothedRoundTripMicroseconds: UInt64?
    /// How long a client took to connect for the last time: from `SYN_SENT` to `ESTABLISHED`, including lost SYNs. For
    /// TCP, MPTCP and DCCP, measured by the programs in the kernel. `nil` if the socket has not connected, or if the
    /// programs did not see it.
    public var connectMicroseconds: UInt64?
    /// `nil` while the wire bytes are unknown.
    public var wireQuality: Quality?
    public var owners: [Owner]
    /// Several processes held the socket, and the capture method does not see which of them moved its bytes: one has
    /// them all. `nil`: the owners are known.
    public var ownersInferred: Bool?
    /// The bytes of the payload, both ways, whose purpose reports of the socket's processes tell.
    public var explained: UInt64 = 0
    /// What an audit works from. Not in the JSON.
    public var evidence: SocketEvidence?

    /// - Parameter serial: `nil` if cookies alone identify the sockets.
    public init(
        serial: UInt64? = nil,
        cookie: SocketCookie,
        transport: TransportProtocol,
        family: AddressFamily,
        local: SocketAddress,
        remote: SocketAddress,
        role: SocketRole,
        scope: SocketScope?,
        addressClass: String? = nil,
        state: SocketState,
        openedAt: Timestamp? = nil,
        closedAt: Timestamp? = nil,
        preexisting: Bool = false,
        networkNamespace: UInt32? = nil,
        bytes: ByteCounts = ByteCounts(),
        rates: PayloadRates = PayloadRates(),
        segmentsSent: UInt64? = nil,
        segmentsReceived: UInt64? = nil,
        retransmittedSegments: UInt64? = nil,
        smoothedRoundTripMicroseconds: UInt64? = nil,
        connectMicroseconds: UInt64? = nil,
        wireQuality: Quality? = nil,
        owners: [Owner] = []
    ) {
        self.serial = serial ?? cookie.rawValue
        self.cookie = cookie
        self.transport = transport
        self.family = family
        self.local = local
        self.remote = remote
        self.role = role
        self.scope = scope
        self.addressClass = addressClass
        self.state = state
        self.openedAt = openedAt
        self.closedAt = closedAt
        self.preexisting = preexisting
        self.networkNamespace = networkNamespace
        self.bytes = bytes
        self.rates = rates
        self.segmentsSent = segmentsSent
        self.segmentsReceived = segmentsReceived
        self.retransmittedSegments = retransmittedSegments
        self.smoothedRoundTripMicroseconds = smoothedRoundTripMicroseconds
        self.connectMicroseconds = connectMicroseconds
        self.wireQuality = wireQuality
        self.owners = owners
    }

    /// The payload that no report explains.
    public var unattributed: UInt64 { self.bytes.payload.unattributed(explained: self.explained) }

    package enum CodingKeys: String, CodingKey {
        case serial, cookie
        case transport = "protocol"
        case family, local, remote, role, scope
        case addressClass = "class"
        case state
        case openedAt = "opened_at"
        case closedAt = "closed_at"
        case preexisting
        case networkNamespace = "network_namespace"
        case rates
        case segmentsSent = "segments_sent"
        case segmentsReceived = "segments_received"
        case retransmittedSegments = "retransmitted_segments"
        case smoothedRoundTripMicroseconds = "smoothed_rtt_us"
        case connectMicroseconds = "connect_us"
        case wireQuality = "wire_quality"
        case owners
        case ownersInferred = "owners_inferred"
        case explained = "explained_bytes"
        case unattributed = "unattributed_bytes"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            serial: try container.decode(UInt64.self, forKey: .serial),
            cookie: try container.decode(SocketCookie.self, forKey: .cookie),
            transport: try container.decode(TransportProtocol.self, forKey: .transport),
            family: try container.decode(AddressFamily.self, forKey: .family),
            local: try container.decode(SocketAddress.self, forKey: .local),
            remote: try container.decode(SocketAddress.self, forKey: .remote),
            role: try container.decode(SocketRole.self, forKey: .role),
            scope: try container.decodeIfPresent(SocketScope.self, forKey: .scope),
            addressClass: try container.decodeIfPresent(String.self, forKey: .addressClass),
            state: try container.decode(SocketState.self, forKey: .state),
            openedAt: try container.decodeIfPresent(Timestamp.self, forKey: .openedAt),
            closedAt: try container.decodeIfPresent(Timestamp.self, forKey: .closedAt),
            preexisting: try container.decode(Bool.self, forKey: .preexisting),
            networkNamespace: try container.decodeIfPresent(UInt32.self, forKey: .networkNamespace),
            bytes: try ByteCounts(from: decoder),
            rates: try container.decode(PayloadRates.self, forKey: .rates),
            segmentsSent: try container.decodeIfPresent(UInt64.self, forKey: .segmentsSent),
            segmentsReceived: try container.decodeIfPresent(UInt64.self, forKey: .segmentsReceived),
            retransmittedSegments: try container.decodeIfPresent(UInt64.self, forKey: .retransmittedSegments),
            smoothedRoundTripMicroseconds: try container.decodeIfPresent(
                UInt64.self,
                forKey: .smoothedRoundTripMicroseconds
            ),
            connectMicroseconds: try container.decodeIfPresent(UInt64.self, forKey: .connectMicroseconds),
            wireQuality: try container.decodeIfPresent(Quality.self, forKey: .wireQuality),
            owners: try container.decode([Owner].self, forKey: .owners)
        )
        self.ownersInferred = try container.decodeIfPresent(Bool.self, forKey: .ownersInferred)
        self.explained = try container.decode(UInt64.self, forKey: .explained)
    }
}
