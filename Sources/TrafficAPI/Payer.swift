import TrafficLimits
import TrafficModel

/// Who pays for what an answer takes: a connection, a turn to be made, and memory until its client has read it. Payers are
/// strangers to each other.
enum Payer: Sendable, Hashable {
    /// Root, the daemon's user and the socket's group on `control.sock`, and clients with the administrators' token. They
    /// may take what they want, because they may stop the daemon too.
    case administrators
    /// A user of this host, or a block of subordinate ids.
    case user(PayingUser)
    /// Clients on this host whose user the kernel does not know, such as those that have closed their connection.
    case thisHost
    /// A client elsewhere: its address, and of IPv6 the network that one host may have.
    case address(InternetAddress)

    /// RFC 4291: an interface has the lower 64 bits, and chooses them.
    private static let networkBits = 64

    init(uid: UInt32) { self = .user(PayingUser(uid)) }

    /// Of a connection over TCP.
    ///
    /// - Parameter user: `nil` if the kernel does not know it.
    init(peer: TrafficModel.SocketAddress, own: TrafficModel.SocketAddress, user: UInt32?) {
        if let user {
            self.init(uid: user)
        } else if peer.address.isLoopback || peer.address == own.address {
            // A user can have every address of 127.0.0.0/8.
            self = .thisHost
        } else {
            self = .address(peer.address.isIPv4 ? peer.address : peer.address.prefix(Self.networkBits))
        }
    }
}
