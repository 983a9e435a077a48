/// Who pays for what the daemon keeps or does for a user: the user, or a block of subordinate ids.
///
/// Users are strangers to each other, so each limit is for one payer. An ordinary user often has a range of 65,536
/// subordinate ids (subuid(5)) and can be any of them. With a limit for each id, this user could use up the limits for all.
/// Ranges begin above the ids of people and services. So from 65,536 on, the ids of each block of 65,536 are one payer: a
/// range lies in two blocks at most. The kernel side has the same rule: `payer()` in bpf/rows.bpf.h.
package struct PayingUser: Sendable, Hashable, Codable, Comparable {
    private static let blockSize: UInt32 = 65_536

    /// The user's id, or the first id of the block.
    private let first: UInt32

    package init(_ uid: UInt32) {
        self.first = uid < Self.blockSize ? uid : uid - uid % Self.blockSize
    }

    /// `nil`: the payer is a block.
    package var uid: UInt32? { self.first < Self.blockSize ? self.first : nil }

    package static func < (a: PayingUser, b: PayingUser) -> Bool { a.first < b.first }
}
