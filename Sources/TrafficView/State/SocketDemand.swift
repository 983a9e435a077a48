public import TrafficModel

/// What the screen needs.
public enum Demand: Hashable, Sendable {
    case live(SocketDemand)
    /// The minute of history that begins then.
    case minute(Timestamp)
    /// Snapshots of a recording.
    case recording(Replay.Request)
}

/// The sockets that the screen needs in a snapshot. A host may have thousands of sockets. The screen shows few of them,
/// and reading sockets is the main cost of a snapshot.
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
