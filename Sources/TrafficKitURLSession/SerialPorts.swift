import Synchronization

/// Knows which exchanges had a remote port for themselves.
///
/// There is one for the whole process, because all sessions share the process's sockets and do not know of each other.
struct SerialPorts {
    static let process = Mutex(SerialPorts())

    private var active: [UInt16: Set<UInt64>] = [:]
    private var disturbed: Set<UInt64> = []
    private var last: UInt64 = 0

    /// - Returns: A ticket for ``end(_:port:)``.
    mutating func begin(port: UInt16) -> UInt64 {
        self.last += 1
        let others = self.active[port] ?? []
        if !others.isEmpty {
            self.disturbed.formUnion(others)
            self.disturbed.insert(self.last)
        }
        self.active[port] = others.union([self.last])
        return self.last
    }

    /// - Returns: Whether no other exchange used the port meanwhile.
    mutating func end(_ ticket: UInt64, port: UInt16) -> Bool {
        self.active[port]?.remove(ticket)
        if self.active[port]?.isEmpty == true { self.active[port] = nil }
        return self.disturbed.remove(ticket) == nil
    }
}
