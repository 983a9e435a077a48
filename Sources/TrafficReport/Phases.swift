extension Report {
    /// Microseconds. `nil`: there was no such phase, for example on a connection that is used again, or the library did
    /// not see it. The daemon finds missing phases `connect` and `tls` from the kernel and
    /// ``Exchange/Outcome/tlsEndedAt``.
    public struct Phases: Hashable, Sendable, Codable {
        public var dns: UInt32?
        public var connect: UInt32?
        public var tls: UInt32?
        public var send: UInt32?
        public var wait: UInt32?
        public var receive: UInt32?

        public init() {}
    }
}
