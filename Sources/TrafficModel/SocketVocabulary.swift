/// Transport protocol of a socket, named as OpenTelemetry's `network.transport` and `/etc/protocols` do.
public enum TransportProtocol: String, Sendable, Codable, CaseIterable {
    case tcp, udp, mptcp, sctp, udplite, dccp
    /// A ping socket (`SOCK_DGRAM` with `IPPROTO_ICMP`). It needs no privilege.
    case icmp, icmpv6
    case raw
    /// AF_PACKET: whole frames, which bypass the internet protocols.
    case packet
    case other

    /// - Parameters:
    ///   - number: `sk_protocol`, an `IPPROTO_*` value.
    ///   - type: `sk_type`, a `SOCK_*` value. A raw socket has the number of the protocol that it carries, so its type
    ///     decides.
    public init(number: UInt16, type: UInt8) {
        switch (type, number) {
        case (3, _): self = .raw
        case (_, 1): self = .icmp
        case (_, 6): self = .tcp
        case (_, 17): self = .udp
        case (_, 33): self = .dccp
        case (_, 58): self = .icmpv6
        case (_, 132): self = .sctp
        case (_, 136): self = .udplite
        case (_, 262): self = .mptcp
        default: self = .other
        }
    }

    /// Whether payload moves only between two fixed ends, so that a socket without a remote address moves no payload.
    public var hasConnections: Bool {
        switch self {
        case .tcp, .mptcp, .sctp, .dccp: true
        case .udp, .udplite, .icmp, .icmpv6, .raw, .packet, .other: false
        }
    }
}

public enum AddressFamily: String, Sendable, Codable, CaseIterable {
    case ipv4, ipv6
    /// AF_PACKET: no addresses.
    case packet
}

/// State of a socket, named as OpenTelemetry's `network.connection.state`; numbers from `net/tcp_states.h`.
public enum SocketState: String, Sendable, Codable, CaseIterable {
    case established
    case synSent = "syn_sent"
    case synReceived = "syn_received"
    case finWait1 = "fin_wait_1"
    case finWait2 = "fin_wait_2"
    case timeWait = "time_wait"
    case closed
    case closeWait = "close_wait"
    case lastAck = "last_ack"
    case listen
    case closing
    /// A socket without connections that is in use, such as an unconnected UDP socket.
    case unconnected

    /// - Parameters:
    ///   - number: `sk_state`.
    ///   - connectionless: The protocol has no connections: the kernel calls such a socket `TCP_CLOSE` until `connect`.
    public init?(number: UInt8, connectionless: Bool) {
        switch number {
        case 1: self = .established
        case 2: self = .synSent
        case 3, 12: self = .synReceived
        case 4: self = .finWait1
        case 5: self = .finWait2
        case 6: self = .timeWait
        case 7: self = connectionless ? .unconnected : .closed
        case 8: self = .closeWait
        case 9: self = .lastAck
        case 10: self = .listen
        case 11: self = .closing
        default: return nil
        }
    }

    /// As `ss` prints it.
    public var shortName: String {
        switch self {
        case .established: "ESTAB"
        case .synSent: "SYN-SENT"
        case .synReceived: "SYN-RECV"
        case .finWait1: "FIN-WAIT-1"
        case .finWait2: "FIN-WAIT-2"
        case .timeWait: "TIME-WAIT"
        case .closed: "CLOSED"
        case .closeWait: "CLOSE-WAIT"
        case .lastAck: "LAST-ACK"
        case .listen: "LISTEN"
        case .closing: "CLOSING"
        case .unconnected: "UNCONN"
        }
    }
}

public enum SocketRole: String, Sendable, Codable, CaseIterable {
    case client, server, listener
    /// Neither end opened a connection (UDP, raw), or the connection is older than the daemon.
    case peer
}

/// How far the other end is.
public enum SocketScope: String, Sendable, Codable, CaseIterable {
    /// Over the loopback interface, as the address of either end shows.
    case loopback
    /// The other end is on this machine: its address is the same as the local address, or is an address of an interface
    /// of the host, or the socket at the other end is on this machine, such as a container's.
    case sameHost = "same_host"
    case localArea = "lan"
    case internet

    /// - Parameter hostAddresses: The addresses of the host's interfaces, as far as they are known.
    /// - Returns: `nil` for a socket without a remote address.
    public init?(local: InternetAddress, remote: InternetAddress, hostAddresses: Set<InternetAddress> = []) {
        if remote.isUnspecified { return nil }
        if remote.isLoopback || local.isLoopback {
            self = .loopback
        } else if local == remote || hostAddresses.contains(remote) {
            self = .sameHost
        } else {
            self = remote.isLocalArea ? .localArea : .internet
        }
    }

    /// From the most to the least likely to cost money.
    public static let farthestFirst: [SocketScope] = [.internet, .localArea, .sameHost, .loopback]
}
