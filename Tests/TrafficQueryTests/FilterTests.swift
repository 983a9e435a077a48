import Testing
import TrafficModel
import TrafficQuery

@Suite("The filter language")
struct FilterTests {
    static let nginx = ProcessUsage(
        identity: ProcessIdentity(pid: 101, startBoottimeNanoseconds: 5),
        details: ProcessDetails(
            name: "Nginx worker",
            executable: "/usr/sbin/nginx",
            uid: 33,
            user: "www-data",
            systemdUnit: "nginx.service",
            containerID: "4f2a9c",
            cgroup: "/system.slice/nginx.service"
        ),
        bytes: ByteCounts(payload: PayloadBytes(sent: 10_000, received: 2_000_000)),
        rates: PayloadRates(sent: 500, received: 1500)
    )
    static let curl = ProcessUsage(
        identity: ProcessIdentity(pid: 202, startBoottimeNanoseconds: 6),
        details: ProcessDetails(name: "curl ünïcode", uid: 1000, user: "münchen")
    )
    static let https = SocketUsage(
        cookie: SocketCookie(rawValue: 1),
        transport: .tcp,
        family: .ipv4,
        local: address("192.168.1.2", 443),
        remote: address("10.1.2.3", 50_000),
        role: .server,
        scope: .localArea,
        addressClass: "paid_1",
        state: .established,
        bytes: ByteCounts(payload: PayloadBytes(sent: 10_000, received: 900_000)),
        rates: PayloadRates(sent: 5, received: 6),
        owners: [SocketUsage.Owner(identity: nginx.identity, payload: PayloadBytes(sent: 10_000, received: 900_000))]
    )
    static let lookup = SocketUsage(
        cookie: SocketCookie(rawValue: 2),
        transport: .udp,
        family: .ipv6,
        local: address("2001:db8::2", 8080),
        remote: address("2001:db8:1::53", 53),
        role: .peer,
        scope: .internet,
        state: .unconnected,
        owners: [SocketUsage.Owner(identity: curl.identity, payload: PayloadBytes())]
    )
    static let snapshot = Snapshot(
        takenAt: Timestamp(nanosecondsSinceEpoch: 0),
        takenBoottimeNanoseconds: 0,
        countingSince: Timestamp(nanosecondsSinceEpoch: 0),
        host: HostDescription(name: "h", bootID: "b", kernel: "k"),
        daemon: DaemonDescription(version: "1", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
        capture: CaptureStatus(method: .poll, hooks: [], blindSpots: []),
        processes: [nginx, curl],
        exited: [ExitedUsage(group: ProcessGroup(name: "nginx", uid: 33), processes: 3, bytes: nginx.bytes)],
        sockets: [https, lookup],
        totals: Totals(bytes: nginx.bytes)
    )

    static func address(_ text: String, _ port: UInt16) -> SocketAddress {
        SocketAddress(address: InternetAddress(text) ?? InternetAddress(bytes: .init(repeating: 0)), port: port)
    }

    @Test(
        "Each key of a process matches what it names",
        arguments: [
            ("process:nginx", true), ("process:NGINX", true), ("process:sbin/ng", true), ("process:curl", false),
            ("pid:101", true), ("pid:10", false), ("user:www-data", true), ("user:33", true), ("user:www", false),
            ("unit:nginx", true), ("unit:sshd", false), ("container:4F2A", true), ("container:2b", false),
            ("cgroup:system.slice", true), ("cgroup:user.slice", false), ("PROCESS:nginx", true),
            // A name that ends as a unit's does is the whole name.
            ("unit:NGINX.service", true), ("unit:inx.service", false), ("unit:x.service", false),
        ]
    )
    func processKeys(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.nginx) == matches)
        #expect(try Filter("-" + text).matches(Self.nginx) == !matches)
        #expect(try Filter("!" + text).matches(Self.nginx) == !matches)
        #expect(try Filter(text).matches(Self.https, owners: [Self.nginx]) == matches)
        #expect(try !Filter(text).needsSockets)
    }

    @Test(
        "Each key of a socket matches what it names",
        arguments: [
            ("port:443", true), ("port:50000", true), ("port:80", false), ("port:400-500", true), ("lport:443", true),
            ("lport:50000", false), ("rport:50000", true), ("rport:443", false), ("rport:49999-50000", true),
            ("remote:10.1.2.3", true), ("remote:10.1.2", true), ("remote:10.1.2.30", false),
            ("remote:10.0.0.0/8", true),
            ("remote:10.1.2.0/31", false), ("remote:10.1.2.2/31", true), ("remote:0.0.0.0/0", true),
            ("remote:::/0", false), ("remote:::ffff:10.1.2.3", true), ("remote:::ffff:10.0.0.0/104", true),
            ("local:192.168.", true), ("local:10.", false), ("proto:tcp", true), ("proto:TCP", true),
            ("proto:udp", false), ("state:established", true), ("state:ESTAB", true), ("state:listen", false),
            ("scope:lan", true), ("scope:internet", false), ("class:paid_1", true), ("class:PAID_1", true),
            ("class:paid", false), ("role:server", true), ("role:client", false),
        ]
    )
    func socketKeys(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.https, owners: [Self.nginx]) == matches)
        #expect(try Filter("!" + text).matches(Self.https, owners: [Self.nginx]) == !matches)
        #expect(try Filter(text).needsSockets)
        #expect(try Filter(text).matches(Self.nginx), "socket terms are ignored without sockets")
    }

    @Test(
        "IPv6 prefixes and beginnings match",
        arguments: [
            ("remote:2001:db8::/32", true), ("remote:2001:db8:1::/48", true), ("remote:2001:db8:2::/48", false),
            ("remote:2001:DB8:1", true), ("remote:2001:db8:1::53", true), ("remote:0.0.0.0/0", false),
            ("remote:::/0", true), ("2001:db8:1", true), ("dead:beef", false),
        ]
    )
    func ipv6(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.lookup, owners: [Self.curl]) == matches)
    }

    @Test("A socket without a remote address is in no network")
    func unspecified() throws {
        var socket = Self.https
        socket.remote = Self.address("0.0.0.0", 0)
        #expect(try !Filter("remote:0.0.0.0/0").matches(socket, owners: []))
        #expect(try !Filter("remote:0.").matches(socket, owners: []))
        #expect(try Filter("remote:0.0.0.0").matches(socket, owners: []))
    }

    @Test(
        "Comparisons take decimal and binary units",
        arguments: [
            ("rx>1M", true), ("rx>2M", false), ("rx>=2M", true), ("rx>=2000000", true), ("rx<2m", false),
            ("rx<=2M", true), ("rx=2000k", true), ("rx>1.9M", true), ("rx>1.9Mi", true), ("rx>1.91Mi", false),
            ("tx>=10k", true), ("tx>=10Ki", false), ("tx<10KiB", true), ("total<5G", true), ("total=2010k", true),
            ("total>1T", false), ("total>1Gi", false), ("total<1Ti", true), ("rate>1999", true), ("rate>2k", false),
            ("rate=2kB", true), ("rxrate>1k", true), ("txrate>1k", false), ("RX>0", true), ("received>1M", true),
            ("Received>2M", false), ("sent>=10k", true), ("sent>=10Ki", false), ("receivedrate>1k", true),
            ("sentrate>1k", false), ("sentrate<1k", true),
        ]
    )
    func comparisons(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.nginx) == matches)
        #expect(try Filter("-" + text).matches(Self.nginx) == !matches)
    }

    @Test(
        "A word alone looks at name, executable, user, unit and remote address",
        arguments: [
            ("worker", true), ("USR/SBIN", true), ("www-d", true), (".service", true), ("10.1", true), ("0.1.2", false),
            ("sshd", false), ("4f2a9c", false), ("\"Nginx worker\"", true), ("\"nginx  worker\"", false),
            ("\"process:nginx\"", false), ("\"-x\"", false), ("ngi\"nx w\"orker", true),
        ]
    )
    func words(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.https, owners: [Self.nginx]) == matches)
        #expect(try Filter("-" + text).matches(Self.https, owners: [Self.nginx]) == !matches)
    }

    @Test("Text beyond ASCII is compared without case", arguments: ["process:ÜNÏ", "MÜNCH", "user:münchen"])
    func unicode(text: String) throws {
        #expect(try Filter(text).matches(Self.curl))
        #expect(try !Filter(text).matches(Self.nginx))
    }

    @Test("Quotes keep blanks, and a backslash inside quotes keeps a quote")
    func quotes() throws {
        var process = Self.curl
        process.details.name = #"a "b\ c"#
        #expect(try Filter(#"process:"a \"b\\ c""#).matches(process))
        #expect(try Filter("  process:\"Nginx worker\"\t pid:101 ").matches(Self.nginx))
    }

    @Test(
        "Of several values with commas between them, one has to match",
        arguments: [
            ("user:root,www-data", true), ("user:root,postgres", false), ("process:curl,nginx", true),
            ("pid:1,101", true), ("port:80,443", true), ("port:80,8000-8100", false), ("proto:udp,tcp", true),
            ("remote:172.16.0.0/12,10.0.0.0/8", true), ("remote:172.16.0.0/12,192.168.", false), ("sshd,work", true),
            ("scope:internet,loopback", false), ("process:\"curl,nginx\"", false), ("sshd,10.1", true),
            ("user:\"root\",\"www-data\"", true),
        ]
    )
    func lists(text: String, matches: Bool) throws {
        #expect(try Filter(text).matches(Self.https, owners: [Self.nginx]) == matches)
        #expect(try Filter("-" + text).matches(Self.https, owners: [Self.nginx]) == !matches)
        let keeps = Self.snapshot.filtered(by: try Filter(text)).processes?.contains(Self.nginx)
        #expect(keeps == matches)
    }

    @Test("A quoted comma is part of the value")
    func quotedComma() throws {
        var process = Self.curl
        process.details.name = "a,b"
        #expect(try Filter("process:\"a,b\"").matches(process))
        #expect(try Filter("\"a,b\"").matches(process))
        #expect(try Filter("process:x,\"a,b\"").matches(process))
    }

    @Test("All terms must hold, of the same owner")
    func conjunction() throws {
        #expect(try Filter("process:nginx port:443 rx>100k").matches(Self.https, owners: [Self.nginx, Self.curl]))
        #expect(try !Filter("process:nginx user:münchen").matches(Self.https, owners: [Self.nginx, Self.curl]))
        #expect(try !Filter("process:nginx").matches(Self.https, owners: []))
        #expect(try Filter("-process:nginx port:443").matches(Self.https, owners: []))
    }

    @Test("An empty filter passes everything", arguments: ["", "  \t "])
    func empty(text: String) throws {
        let filter = try Filter(text)
        #expect(filter.isEmpty)
        #expect(Self.snapshot.filtered(by: filter) == Self.snapshot)
    }

    @Test(
        "A snapshot keeps the processes that own a socket that passes",
        arguments: [
            ("process:nginx", [101], [1], 1), ("port:443", [101], [1], 0), ("port:443 rx>1M", [101], [], 0),
            ("-port:443", [202], [2], 1), ("proto:udp process:nginx", [], [], 0), ("10.1.2.3", [101], [1], 0),
            ("-nginx", [202], [2], 0), ("rx>1M", [101], [], 1), ("-10.1.2.3", [202], [2], 1),
            ("pid:202", [202], [2], 0),
        ] as [(String, [Int32], [UInt64], Int)]
    )
    func snapshots(text: String, pids: [Int32], cookies: [UInt64], exited: Int) throws {
        let filtered = Self.snapshot.filtered(by: try Filter(text))
        #expect(filtered.processes?.map(\.identity.pid) == pids)
        #expect(filtered.sockets?.map(\.cookie.rawValue) == cookies)
        #expect(filtered.exited?.count == exited)
    }

    @Test(
        "A unit that a user has named like one of the system does not count as that unit",
        arguments: [
            ("unit:nginx.service", false), ("unit:nginx", true), ("unit:user@5301.service", false),
            ("unit:user@5301.service/nginx.service", true), ("unit:user@5301", true),
        ]
    )
    func unitOfUser(text: String, matches: Bool) throws {
        var process = Self.nginx
        process.details.systemdUnit = "user@5301.service/nginx.service"
        #expect(try Filter(text).matches(process) == matches)
        let group = ProcessGroup(process.details)
        #expect(try AlertFilter(text, for: .byteAlerts).admits(group, nil, userName: { _ in nil }) == matches)
    }

    @Test(
        "A row of ended processes passes by what it says of its group",
        arguments: [
            ("process:sh", true), ("unit:nginx", true), ("unit:ssh", false), ("container:4f2a", true),
            ("user:33", true),
            ("user:7", false), ("-user:33", false), ("nginx.service", true), ("pid:1", false), ("cgroup:a", false),
            ("user:www-data", true), ("user:root", false), ("-user:www-data", false), ("www-da", true),
        ]
    )
    func ended(text: String, isShown: Bool) throws {
        var snapshot = Self.snapshot
        let group = ProcessGroup(name: "sh", systemdUnit: "nginx.service", containerID: "4f2a9c", uid: 33)
        snapshot.exited = [ExitedUsage(group: group, user: "www-data", processes: 1)]
        #expect(snapshot.filtered(by: try Filter(text)).exited?.isEmpty == !isShown)
    }

    @Test("Totals are of the processes that pass, with all their bytes, and of the ended processes' rows that pass")
    func totals() throws {
        let bytes = Self.nginx.bytes
        #expect(Self.snapshot.filtered(by: try Filter("")).totals == Self.snapshot.totals)
        let nginx = Self.snapshot.filtered(by: try Filter("nginx")).totals
        #expect(nginx.bytes.payload == bytes.payload + bytes.payload)
        #expect(nginx.rates == Self.nginx.rates)
        // A socket makes its process pass with all of the process's bytes.
        #expect(Self.snapshot.filtered(by: try Filter("port:443")).totals.bytes.payload == bytes.payload)
        let none = Self.snapshot.filtered(by: try Filter("nobody")).totals
        #expect(none.bytes.payload == PayloadBytes() && none.rates == PayloadRates())
        // The scopes and classes of gone sockets' bytes are not known for each process.
        #expect(nginx.byScope.isEmpty && nginx.byClass == nil)
    }

    @Test("Without a list of sockets, terms about sockets are ignored; a process without sockets passes no such term")
    func absentSockets() throws {
        var snapshot = Self.snapshot
        snapshot.sockets = nil
        #expect(snapshot.filtered(by: try Filter("port:443")).processes?.count == 2)
        snapshot.sockets = []
        #expect(snapshot.filtered(by: try Filter("port:443")).processes?.isEmpty == true)
        #expect(snapshot.filtered(by: try Filter("nginx")).processes?.count == 1)
    }
}
