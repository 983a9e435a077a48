import CTrafficABI
package import TrafficLimits
package import TrafficModel

/// How much the programs in the kernel may keep: `enum traffic_room` in bpf/include/traffic_abi.h, in words.
package enum CaptureLimits {
    /// For `doctor`, docs/security.md and its test. Empty for `poll`, which has no programs.
    package static func table(_ method: CaptureMethod) -> [StatedLimit] {
        if method == .poll { return [] }
        let isInHash = method == .kprobe
        func room(_ room: traffic_room, inHash: traffic_room) -> Int { Int((isInHash ? inHash : room).rawValue) }
        let parts = Int(TRAFFIC_PARTS.rawValue)
        // A record in the ring has a header of 8 bytes (BPF_RINGBUF_HDR_SZ). Most sockets leave one record: these have
        // twice the room.
        let records = Int(TRAFFIC_RECORDS_OF_SOCKET.rawValue) * (TrafficRecord.size + 8)
        let sharedRecord = TrafficRecord.sharedSize + 8
        let deferred = room(TRAFFIC_DEFERRED, inHash: TRAFFIC_DEFERRED_IN_HASH)
        let rows = room(TRAFFIC_ROWS, inHash: TRAFFIC_ROWS_IN_HASH)
        return [
            StatedLimit(
                of: "closed sockets in the ring, between two drains (at least)",
                user: Int(TRAFFIC_RING_BYTES.rawValue) / parts / records,
                all: Int(TRAFFIC_RING_BYTES.rawValue) / records,
                beyond: "wait in a map for the next sweep"
            ),
            StatedLimit(
                of: "larger records there, of sockets of more than \(TRAFFIC_INLINE_OWNERS.rawValue) processes",
                user: Int(TRAFFIC_RING_BYTES.rawValue) / parts / sharedRecord,
                all: Int(TRAFFIC_RING_BYTES.rawValue) / sharedRecord,
                beyond: "wait in a map for the next sweep"
            ),
            StatedLimit(
                of: "closed sockets in that map that had no record before",
                user: deferred / Int(TRAFFIC_PARTS_FOR_UNRECORDED.rawValue),
                all: deferred,
                beyond: "their bytes go to the rows of their processes"
            ),
            StatedLimit(
                of: "closed sockets in that map that had a record before",
                user: deferred / parts / 2,
                all: deferred,
                beyond: "the rest of their bytes goes to the rows of their processes"
            ),
            StatedLimit(
                of: "closed sockets in that map whose last record is a sweep's since the last checkpoint",
                user: deferred / parts,
                all: deferred,
                beyond: "the rest of their bytes goes to the rows of their processes"
            ),
            StatedLimit(
                of: "rows of processes, between two readings",
                user: rows / 2 / Int(TRAFFIC_USERS_FOR_ROWS.rawValue),
                all: rows / 2,
                beyond: "the bytes go to the user's row"
            ),
            StatedLimit(
                of: "rows of users, between two readings (at least)",
                all: Int(TRAFFIC_USER_ROWS.rawValue) / 2,
                beyond: "the bytes count for no user"
            ),
            StatedLimit(
                of: "open sockets of more than \(TRAFFIC_INLINE_OWNERS.rawValue) processes, by the user of the first",
                user: isInHash
                    ? Int(TRAFFIC_SHARED_SOCKETS_IN_HASH.rawValue) / parts : Int(TRAFFIC_SHARED_SOCKETS.rawValue),
                all: isInHash ? Int(TRAFFIC_SHARED_SOCKETS_IN_HASH.rawValue) : nil,
                beyond: "the bytes of the third and of later processes go to their rows"
            ),
            StatedLimit(
                of: "processes that hold a socket that another process made, for each such socket",
                user: HolderList.limit.ofUser,
                all: HolderList.limit.inAll,
                beyond: "not shown as its holders; who used the socket stays one"
            ),
            StatedLimit(
                of: "processes of a socket",
                all: Int(TRAFFIC_INLINE_OWNERS.rawValue + TRAFFIC_FURTHER_OWNERS.rawValue),
                beyond: "the bytes of later processes go to their rows"
            ),
        ]
    }
}
