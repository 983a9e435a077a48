import TrafficModel

/// A datagram of a cooperating program as it came, and what the kernel said of its sender.
public struct ReceivedReport: Sendable, Hashable, Codable {
    /// From the sender's credentials (`SCM_CREDENTIALS`, unix(7)), as is the user.
    public var pid: Int32
    public var uid: UInt32
    /// When the sender began, in clock ticks since boot (proc(5)). `nil` if no process of this user had the pid any more
    /// when the datagram was read.
    public var startTicks: UInt64?
    public var datagram: [UInt8]

    public init(pid: Int32, uid: UInt32, startTicks: UInt64?, datagram: [UInt8]) {
        self.pid = pid
        self.uid = uid
        self.startTicks = startTicks
        self.datagram = datagram
    }
}
