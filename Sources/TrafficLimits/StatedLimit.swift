/// How much of something the daemon or its programs in the kernel keep. What exceeds a limit costs detail, in most
/// cases only that user's, and no byte unless ``beyond`` says so.
public struct StatedLimit: Sendable, Decodable, Hashable {
    /// What is limited, in a few words.
    public var of: String
    /// The most for one process, for one user, and for all together. `nil` where there is no such limit.
    public var process: UInt64?
    public var user: UInt64?
    public var all: UInt64?
    /// What becomes of what exceeds the limit.
    public var beyond: String

    package init(of: String, process: Int? = nil, user: Int? = nil, all: Int? = nil, beyond: String) {
        self.of = of
        self.process = process.map { UInt64(clamping: $0) }
        self.user = user.map { UInt64(clamping: $0) }
        self.all = all.map { UInt64(clamping: $0) }
        self.beyond = beyond
    }

    package enum CodingKeys: String, CodingKey {
        case of, process, user, all, beyond
    }
}
