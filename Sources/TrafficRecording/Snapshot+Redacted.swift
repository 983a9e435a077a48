package import TrafficModel

extension Snapshot {
    /// The snapshot with pseudonyms in place of all names and addresses. Numbers, times, ports, and the words of this
    /// project and of the kernel stay.
    package func redacted(_ pseudonyms: Pseudonyms) -> Snapshot {
        var result = self
        result.host.name = "host-" + pseudonyms.text(.host, self.host.name)
        // It says where the host is.
        result.host.timeZone = nil
        result.host.bootID = pseudonyms.text(.boot, self.host.bootID)
        result.processes = self.processes?.map { $0.redacted(pseudonyms) }
        result.exited = self.exited?.map { usage in
            var usage = usage
            if let uid = usage.group.uid { usage.user = usage.user.map { pseudonyms.user($0, uid: uid) } }
            usage.group = usage.group.redacted(pseudonyms)
            return usage
        }
        result.sockets = self.sockets?.map { socket in
            var socket = socket
            socket.local.address = pseudonyms.address(socket.local.address)
            socket.remote.address = pseudonyms.address(socket.remote.address)
            socket.addressClass = socket.addressClass.map(pseudonyms.addressClass)
            return socket
        }
        result.endpoints = self.endpoints?.map { usage in
            var usage = usage
            usage.process = usage.process.redacted(pseudonyms)
            usage.subject = usage.subject.redacted(pseudonyms)
            return usage
        }
        result.interfaces = self.interfaces?.map { usage in
            var usage = usage
            usage.name = pseudonyms.interface(usage.name)
            return usage
        }
        result.totals.byClass = self.totals.byClass.map { classes in
            classes.reduce(into: [:]) { $0[pseudonyms.addressClass($1.key)] = $1.value }
        }
        return result
    }
}

extension ProcessUsage {
    fileprivate func redacted(_ pseudonyms: Pseudonyms) -> ProcessUsage {
        var result = self
        let group = ProcessGroup(self.details).redacted(pseudonyms)
        result.details.name = group.name
        result.details.executable = group.executable
        // A command line is names and passwords, and nobody needs it to follow bytes.
        result.details.commandLine = nil
        // Of the group, whose unit has a `*` for what is new each time, so that a process stays in its group.
        result.details.systemdUnit = group.systemdUnit
        result.details.containerID = group.containerID
        result.details.uid = pseudonyms.uid(self.details.uid)
        result.details.user = self.details.user.map { pseudonyms.user($0, uid: self.details.uid) }
        result.details.cgroup = self.details.cgroup.map { "/c-" + pseudonyms.text(.group, $0) }
        result.endpoints = self.endpoints?.map { endpoint in
            var endpoint = endpoint
            endpoint.host = pseudonyms.host(endpoint.host)
            endpoint.route = pseudonyms.route(endpoint.route)
            return endpoint
        }
        return result
    }
}

extension ProcessGroup {
    fileprivate func redacted(_ pseudonyms: Pseudonyms) -> ProcessGroup {
        ProcessGroup(
            name: pseudonyms.process(self.name),
            executable: self.executable.map(pseudonyms.path),
            systemdUnit: self.systemdUnit.map(pseudonyms.unit),
            containerID: self.containerID.map(pseudonyms.container),
            uid: self.uid.map(pseudonyms.uid)
        )
    }
}

extension EndpointSubject {
    fileprivate func redacted(_ pseudonyms: Pseudonyms) -> EndpointSubject {
        switch self {
        case .route(let host, let route): .route(host: pseudonyms.host(host), route: pseudonyms.route(route))
        case .host(let host): .host(pseudonyms.host(host))
        case .content: self
        }
    }
}
