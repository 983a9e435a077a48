/// A datagram of a cooperating program as it came, and what the kernel said of its sender.
public struct ReceivedReport: Sendable, Hashable, Codable {
    /// From the sender's credentials (`SCM_CREDENTIALS`, unix(7)).
    public var pid: Int32
    /// When that process began, in clock ticks since boot (proc(5)); `nil` if the process was already gone.
    public var startTicks: UInt64?
    public var datagram: [UInt8]

    public init(pid: Int32, startTicks: UInt64?, datagram: [UInt8]) {
        self.pid = pid
        self.startTicks = startTicks
        self.datagram = datagram
    }
}
