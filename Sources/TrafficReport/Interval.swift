extension Report {
    /// The part `[from, to)` of a byte stream. A message took `bytes` of it: all of it, unless messages interleave
    /// (HTTP/2).
    public struct Interval: Hashable, Sendable, Codable {
        public var from: UInt64
        public var to: UInt64
        public var bytes: UInt64

        public init(from: UInt64 = 0, to: UInt64 = 0) {
            self.init(from: from, to: to, bytes: to >= from ? to - from : 0)
        }

        public init(from: UInt64, to: UInt64, bytes: UInt64) {
            self.from = from
            self.to = to
            self.bytes = bytes
        }

        /// The place is unknown.
        public var isEmpty: Bool { self.bytes == 0 }

        public var isPossible: Bool { self.from <= self.to && self.bytes <= self.to - self.from }
    }
}
