/// How much of something one user may have (``PayingUser``), and all users together. A user with more loses that user's own
/// details, and no byte.
public struct UserLimit: Sendable, Hashable {
    public var ofUser: Int
    public var inAll: Int

    public init(_ ofUser: Int, inAll: Int) {
        (self.ofUser, self.inAll) = (ofUser, inAll)
    }
}
