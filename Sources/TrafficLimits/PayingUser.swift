/// Who pays for what the daemon keeps or does for a user: the user, or a block of subordinate ids.
///
/// Users are strangers to each other, so each limit is for one payer. A user often has a range of 65,536 subordinate ids
/// (subuid(5)) and can be any of them. If each id had limits of its own, this user could use up the limits for all. So
/// from 65,536 on, where such ranges are, the ids of each block of 65,536 are one payer. A range lies in two blocks at
/// most. The kernel side has the same rule: `payer_id()` in bpf/payer.bpf.h.
public struct PayingUser: Sendable, Hashable, Codable, Comparable {
    private static let blockSize: UInt32 = 65_536

    /// The user's id, or the first id of the block.
    private let first: UInt32

    public init(_ uid: UInt32) {
        self.first = uid < Self.blockSize ? uid : uid - uid % Self.blockSize
    }

    /// The user; `nil` if the payer is a block.
    public var uid: UInt32? { self.first < Self.blockSize ? self.first : nil }

    public static func < (a: PayingUser, b: PayingUser) -> Bool { a.first < b.first }
}

extension PayingUser: CustomStringConvertible {
    public var description: String {
        self.uid.map { "user \($0)" } ?? "users \(self.first) to \(self.first + (Self.blockSize - 1))"
    }
}
