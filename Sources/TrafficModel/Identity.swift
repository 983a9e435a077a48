/// A process for as long as it lives. A pid alone does not identify a process, because the kernel reuses pids.
///
/// The start time is `task_struct.start_boottime` of the thread group leader, in nanoseconds since boot (suspend
/// included), as field 22 of `/proc/PID/stat` shows it in clock ticks.
public struct ProcessIdentity: Hashable, Sendable, Codable, Comparable {
    /// Thread group id in the initial PID namespace. 0 is the kernel itself.
    public var pid: Int32
    public var startBoottimeNanoseconds: UInt64

    public init(pid: Int32, startBoottimeNanoseconds: UInt64) {
        self.pid = pid
        self.startBoottimeNanoseconds = startBoottimeNanoseconds
    }

    /// `PID-START`. A text, because readers with 53-bit numbers (JavaScript, jq) round the start from 104 days after
    /// boot on.
    public var name: String { "\(self.pid)-\(self.startBoottimeNanoseconds)" }

    /// The process that began first is the smaller one.
    public static func < (a: ProcessIdentity, b: ProcessIdentity) -> Bool {
        (a.startBoottimeNanoseconds, a.pid) < (b.startBoottimeNanoseconds, b.pid)
    }

    package enum CodingKeys: String, CodingKey {
        case pid
        case startBoottimeNanoseconds = "start_boottime_ns"
    }

    /// Encoders write the name beside the fields. A reader of the two fields can make the name from them.
    package enum NameKeys: String, CodingKey {
        case name = "process_id"
    }

    /// A clock tick of proc(5): `USER_HZ` is 100 on every architecture that Linux still has.
    package static let nanosecondsPerTick: UInt64 = 10_000_000

    /// The start as proc(5) shows it, in clock ticks since boot.
    package var startTicks: UInt64 { self.startBoottimeNanoseconds / Self.nanosecondsPerTick }

    /// Work that the kernel does for no process: the kernel's own use of a socket, in softirq.
    public static let kernel = ProcessIdentity(pid: 0, startBoottimeNanoseconds: 1)
}

/// The kernel's name of a socket: the same value from `getsockopt(SO_COOKIE)`, BPF and `inet_diag`. Never reused.
public struct SocketCookie: Hashable, Sendable, RawRepresentable {
    public var rawValue: UInt64

    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

extension SocketCookie: Codable {
    public init(from decoder: any Decoder) throws {
        self.init(rawValue: try decoder.singleValueContainer().decode(UInt64.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.rawValue)
    }
}
