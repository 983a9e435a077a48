package import TrafficModel

/// The kind of client that sent a request. It decides what the client may see.
package enum Viewer: Sendable, Hashable {
    /// root, the daemon's own user, or a member of the group that owns `control.sock`; or a client on the TCP listener
    /// with the administrators' token. Sees everything.
    case administrator
    /// Any other local user, by the credentials of its connection. Sees what belongs to its own processes.
    case user(UInt32)
    /// Another client on the TCP listener, which has no credentials. Sees all processes without their command lines, and
    /// their endpoints, but no sockets and no exchanges.
    ///
    /// This listener is for metrics, which show the same. Of the processes, any user of the host can read as much in
    /// `/proc`. Command lines can contain passwords. A client that knows only the port number must not learn which
    /// process talks to which host.
    case network
}

extension Reading {
    /// The part that `viewer` may see. Filters are applied after this, so that a filter can't reveal hidden rows.
    package func visible(to viewer: Viewer) -> Reading {
        switch viewer {
        case .administrator: return self
        case .user(let uid): return self.owned(by: uid)
        case .network:
            var result = self
            result.snapshot.sockets = nil
            result.snapshot.socketsUnlisted = nil
            result.snapshot.alertsActive = nil
            result.exchanges = []
            result.evidence = AuditEvidence()
            result.snapshot.processes = self.snapshot.processes?.map { process in
                var process = process
                process.details.commandLine = nil
                return process
            }
            return result
        }
    }

    /// A user's own processes, running and ended, their sockets, endpoints and exchanges, and sums over these processes
    /// only.
    ///
    /// - `totals.by_scope` is left empty and `by_class` is left out: for processes that are gone, these bytes can't be
    ///   divided by user.
    /// - A socket that is shared with other users' processes keeps its own counters, because any process that has the
    ///   socket can ask the kernel for them (`TCP_INFO`). The other owners are left out.
    /// - Interfaces, capture, daemon and host are not secret on a host (`/proc/net/dev`).
    private func owned(by uid: UInt32) -> Reading {
        var result = self
        let processes = (self.snapshot.processes ?? []).filter { $0.details.uid == uid }
        let identities = Set(processes.map(\.identity))
        result.evidence = AuditEvidence()
        result.evidence.countsInterfaces = self.evidence.countsInterfaces
        result.evidence.forgottenSocketsOf = self.evidence.forgottenSocketsOf.filter { identities.contains($0.key) }
        result.exchanges = self.exchanges.filter { identities.contains($0.process) }
        result.groupedEndpoints = self.groupedEndpoints.mapValues { $0.filter { $0.process.uid == uid } }
        result.snapshot.processes = self.snapshot.processes.map { _ in processes }
        result.snapshot.exited = self.snapshot.exited?.filter { $0.group.uid == uid }
        result.snapshot.sockets = self.snapshot.sockets?.compactMap { socket in
            var socket = socket
            socket.owners.removeAll { !identities.contains($0.identity) }
            return socket.owners.isEmpty ? nil : socket
        }
        // These numbers are of all users.
        result.snapshot.socketsUnlisted = nil
        result.snapshot.alertsActive = nil
        result.snapshot.endpoints = self.snapshot.endpoints?.filter { $0.process.uid == uid }
        result.snapshot.totals = Totals(of: processes, result.snapshot.exited ?? [])
        return result
    }
}

extension MetricsReading {
    /// The part that `viewer` may see. Over TCP that is all of it: processes, endpoints and sums, as in
    /// ``Reading/visible(to:)``, and no socket, pid or command line.
    package func visible(to viewer: Viewer) -> MetricsReading {
        guard case .user(let uid) = viewer else { return self }
        var result = self
        result.host = nil
        result.processes = self.processes.filter(of: uid) { $0.uid }
        result.endpoints = self.endpoints.filter(of: uid) { $0.process.uid }
        return result
    }
}

extension MetricsReading.Sums {
    /// A user's own series and overflow.
    fileprivate func filter(of uid: UInt32, _ user: (Name) -> UInt32?) -> Self {
        Self(
            series: self.series.filter { user($0.name) == uid },
            overflow: self.overflow.filter { $0.key.user == uid }
        )
    }
}
