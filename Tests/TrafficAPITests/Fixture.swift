import TrafficModel

/// A host with a process of root, one of nobody, a socket of each and one that both share.
enum Fixture {
    static let root = process(pid: 10, uid: 0, name: "sshd", sent: 1000)
    static let nobody = process(pid: 20, uid: 65_534, name: "web", sent: 70)

    static func process(pid: Int32, uid: UInt32, name: String, sent: UInt64) -> ProcessUsage {
        ProcessUsage(
            identity: ProcessIdentity(pid: pid, startBoottimeNanoseconds: UInt64(pid)),
            details: ProcessDetails(
                name: name,
                executable: "/usr/sbin/\(name)",
                commandLine: [name, "--password=hunter2"],
                uid: uid
            ),
            socketsOpen: 2,
            bytes: ByteCounts(payload: PayloadBytes(sent: sent, received: 1), wireSent: sent + 52),
            rates: PayloadRates(sent: Double(sent), received: 0)
        )
    }

    static func socket(_ cookie: UInt64, port: UInt16, owners: [ProcessUsage]) -> SocketUsage {
        SocketUsage(
            cookie: SocketCookie(rawValue: cookie),
            transport: .tcp,
            family: .ipv4,
            local: SocketAddress(address: address("192.0.2.1"), port: port),
            remote: SocketAddress(address: address("198.51.100.7"), port: 40_000),
            role: .server,
            scope: .internet,
            state: .established,
            owners: owners.map { SocketUsage.Owner(identity: $0.identity, payload: PayloadBytes(sent: 5)) }
        )
    }

    static func endpoint(of process: ProcessUsage, _ route: String) -> EndpointUsage {
        EndpointUsage(
            process: ProcessGroup(process.details),
            role: .client,
            subject: .route(host: "api.example", route: route),
            requests: 1
        )
    }

    static func exchange(of process: ProcessUsage, _ route: String) -> ExchangeUsage {
        ExchangeUsage(
            process: process.identity,
            processName: process.details.name,
            exchange: 1,
            role: .client,
            method: "GET",
            host: "api.example",
            route: route,
            startedAt: Timestamp(nanosecondsSinceEpoch: 1_763_700_000_000_000_000)
        )
    }

    /// Not in the JSON of a snapshot.
    static let exchanges = [exchange(of: root, "/root"), exchange(of: nobody, "/nobody")]

    static func address(_ text: String) -> InternetAddress {
        InternetAddress(text) ?? InternetAddress(bytes: .init(repeating: 0))
    }

    static func reading(sockets: Int = 0, takenBoottimeNanoseconds: UInt64 = 1_000_000_000) -> Reading {
        Reading(snapshot: self.snapshot(sockets: sockets, takenBoottimeNanoseconds: takenBoottimeNanoseconds))
    }

    static func snapshot(sockets: Int = 0, takenBoottimeNanoseconds: UInt64 = 1_000_000_000) -> Snapshot {
        let time = Timestamp(nanosecondsSinceEpoch: 1_763_700_000_000_000_000)
        return Snapshot(
            takenAt: time,
            takenBoottimeNanoseconds: takenBoottimeNanoseconds,
            countingSince: time,
            host: HostDescription(name: "host", bootID: "boot", kernel: "6.18"),
            daemon: DaemonDescription(version: "0.1", pid: 1, startedAt: time),
            capture: CaptureStatus(method: .tracepoint, hooks: ["tp_btf/sock_send_length"], blindSpots: []),
            processes: [root, nobody],
            exited: [ExitedUsage(group: ProcessGroup(name: "curl", uid: 0), processes: 3)],
            sockets: [
                socket(1, port: 22, owners: [root]), socket(2, port: 80, owners: [nobody]),
                socket(3, port: 443, owners: [root, nobody]),
            ] + (0..<sockets).map { socket(UInt64(100 + $0), port: 9000, owners: [root]) },
            endpoints: [endpoint(of: root, "/root"), endpoint(of: nobody, "/nobody")],
            interfaces: [InterfaceUsage(name: "lo", sentBytes: 1, receivedBytes: 1)],
            totals: Totals(
                bytes: ByteCounts(payload: PayloadBytes(sent: 123_456, received: 9)),
                byScope: ["internet": ByteCounts()],
                byClass: ["paid": ByteCounts()]
            )
        )
    }
}
