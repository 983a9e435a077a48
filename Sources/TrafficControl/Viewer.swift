package import TrafficModel

/// On whose behalf a request asks, and so what it may see.
package enum Viewer: Sendable, Hashable {
    /// root, the daemon's own user, or a member of the group that owns `control.sock`: everything.
    case administrator
    /// Any other local user, by the credentials of its connection: what belongs to its own processes.
    case user(UInt32)
    /// Someone on the TCP listener, who has no credentials: all processes without their command lines, their APIs, no sockets and no
    /// exchanges.
    ///
    /// That is what the metrics, which this listener is for, say anyway, and no more than any user of the host can read in `/proc`.
    /// Command lines carry passwords, and who talks to whom is nobody's business that only has the port number.
    case network
}

extension Snapshot {
    /// The part that `viewer` may see. Filters are applied after this, so that no filter tells what is not shown.
    package func visible(to viewer: Viewer) -> Snapshot {
        switch viewer {
        case .administrator: return self
        case .user(let uid): return self.owned(by: uid)
        case .network:
            var result = self
            result.sockets = nil
            result.exchanges = nil
            result.evidence = nil
            result.processes = self.processes?.map { process in
                var process = process
                process.details.commandLine = nil
                return process
            }
            return result
        }
    }

    /// A user's own processes, the sockets that they use, their APIs and exchanges, and sums over just these.
    ///
    /// - `exited` rows have no user any more: they are left out.
    /// - `totals.by_scope` and `by_class` of gone processes can't be told apart by user: they are left empty and out, unknown.
    /// - A socket shared with other users' processes keeps its own counters, which any process that has it can ask for
    ///   (`TCP_INFO`), and loses the other owners.
    /// - Interfaces, capture, daemon and host are no secret on a host (`/proc/net/dev`).
    private func owned(by uid: UInt32) -> Snapshot {
        var result = self
        let processes = (self.processes ?? []).filter { $0.details.uid == uid }
        let identities = Set(processes.map(\.identity))
        result.processes = self.processes.map { _ in processes }
        result.exited = nil
        result.evidence = self.evidence.map { evidence in
            var own = AuditEvidence()
            own.goneSocketsOf = evidence.goneSocketsOf.filter { identities.contains($0.key) }
            return own
        }
        result.sockets = self.sockets?.compactMap { socket in
            var socket = socket
            socket.owners.removeAll { !identities.contains($0.identity) }
            return socket.owners.isEmpty ? nil : socket
        }
        result.endpoints = self.endpoints?.filter { $0.process.uid == uid }
        result.exchanges = self.exchanges?.filter { identities.contains($0.process) }
        result.totals = Totals(of: processes)
        return result
    }
}
