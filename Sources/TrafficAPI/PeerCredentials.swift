import Glibc
package import NIOCore

/// The user at the other end of a unix socket, as the kernel stored it when the connection was made (`unix(7)`).
package struct PeerCredentials: Sendable, Hashable {
    package var uid: UInt32
    package var gid: UInt32
    package var supplementaryGroups: [UInt32]

    package init(uid: UInt32, gid: UInt32, supplementaryGroups: [UInt32] = []) {
        self.uid = uid
        self.gid = gid
        self.supplementaryGroups = supplementaryGroups
    }

    /// - Returns: `nil` for a channel that has no socket.
    /// - Throws: `IOError` if the socket does not give the credentials.
    package init?(of channel: any Channel) async throws {
        guard
            let credentials = try await channel.eventLoop.submit({ try PeerCredentials(onEventLoopOf: channel) }).get()
        else { return nil }
        self = credentials
    }

    /// As ``init(of:)``, on the channel's event loop.
    init?(onEventLoopOf channel: any Channel) throws {
        let credentials = try channel.pipeline.syncOperations
            .withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { try PeerCredentials(socket: $0) }
        guard let credentials else { return nil }
        self = credentials
    }

    /// The kernel answers both options from what it holds for the connection. No name service is asked, so no name
    /// service can stall the event loop. The groups are the same groups that the kernel checked against the socket's
    /// mode. `SO_PEERGROUPS` needs Linux 4.13.
    private init(socket: CInt) throws {
        // struct ucred { pid, uid, gid }, which Glibc's module hides.
        let credentials = try Self.option(SO_PEERCRED, of: socket, capacity: 3)
        guard credentials.count == 3 else { throw IOError(errnoCode: EINVAL, reason: "getsockopt(SO_PEERCRED)") }
        self.init(uid: credentials[1], gid: credentials[2], supplementaryGroups: try Self.groups(of: socket))
    }

    private static func groups(of socket: CInt) throws -> [UInt32] {
        do {
            return try Self.option(SO_PEERGROUPS, of: socket, capacity: 32)
        } catch let error as IOError where error.errnoCode == ERANGE {
            // NGROUPS_MAX of Linux: no process has more groups.
            return try Self.option(SO_PEERGROUPS, of: socket, capacity: 65_536)
        }
    }

    private static func option(_ name: CInt, of socket: CInt, capacity: Int) throws -> [UInt32] {
        try unsafe [UInt32](unsafeUninitializedCapacity: capacity) { buffer, count in
            var length = socklen_t(capacity * MemoryLayout<UInt32>.stride)
            guard unsafe getsockopt(socket, SOL_SOCKET, name, buffer.baseAddress, &length) == 0 else {
                throw IOError(errnoCode: errno, reason: "getsockopt(\(name))")
            }
            count = Int(length) / MemoryLayout<UInt32>.stride
        }
    }
}

/// Decides which users see everything on `control.sock`.
package struct AccessRule: Sendable, Hashable {
    package var daemonUID: UInt32
    /// The group that the socket was given. `nil`: there is no such group, and no group membership gives access.
    package var group: UInt32?

    package init(daemonUID: UInt32, group: UInt32?) {
        self.daemonUID = daemonUID
        self.group = group
    }

    package func viewer(for peer: PeerCredentials) -> Viewer {
        if peer.uid == 0 || peer.uid == self.daemonUID { return .administrator }
        if let group, peer.gid == group || peer.supplementaryGroups.contains(group) { return .administrator }
        return .user(peer.uid)
    }
}
