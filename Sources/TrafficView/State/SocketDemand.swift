import TrafficModel

/// Whose sockets a snapshot must bring for what is shown. Of a host with thousands of them most are never looked at, and reading
/// them is what a snapshot costs.
public enum SocketDemand: Hashable, Sendable {
    case none
    case of(Set<Int32>)
    case all
}

extension Snapshot {
    func covers(_ demand: SocketDemand) -> Bool {
        switch demand {
        case .none: true
        case .of(let pids): self.sockets != nil && (self.socketsOf.map { pids.isSubset(of: $0) } ?? true)
        case .all: self.sockets != nil && self.socketsOf == nil
        }
    }
}
