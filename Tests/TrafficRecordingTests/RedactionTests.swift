import Foundation
import Testing
import TrafficExport
import TrafficLimits
import TrafficModel

@testable import TrafficRecording

@Suite("Redaction")
struct RedactionTests {
    /// With a text in every field that has one.
    private static let snapshot: Snapshot = {
        let group = ProcessGroup(
            name: "acme-billing",
            executable: "/opt/acme/bin/billing",
            systemdUnit: "acme-billing@blue.service",
            containerID: "deadbeefcafe0123456789abcdef0123456789abcdef0123456789abcdef0000",
            uid: 4_711
        )
        var snapshot = Snapshot.made(
            at: 0,
            [
                ProcessUsage(
                    identity: ProcessIdentity(pid: 4_242, startBoottimeNanoseconds: 5),
                    details: ProcessDetails(
                        name: group.name,
                        executable: group.executable,
                        commandLine: ["billing", "--password=hunter2", "\u{1b}]0;pwned\u{7}"],
                        uid: 4_711,
                        user: "acme-svc",
                        systemdUnit: group.systemdUnit,
                        containerID: group.containerID,
                        cgroup: "/system.slice/acme.slice/pod-77",
                        networkNamespace: 1
                    ),
                    bytes: ByteCounts(payload: PayloadBytes(sent: 7, received: 9)),
                    endpoints: [
                        ProcessEndpoint(role: .client, host: "api.acme.example", route: "/customers/{id}/invoices")
                    ]
                ),
                .made("kernel:acme_wq", pid: 2, uid: 0, sent: 1),
                .made("evil\n\"\\\u{202e}name", pid: 3, uid: 4_712, sent: 1),
            ],
            exited: [ExitedUsage(group: group, processes: 3)],
            endpoints: [
                EndpointUsage(
                    process: group,
                    role: .client,
                    subject: .route(host: "api.acme.example", route: "/customers/{id}/invoices/{acmeToken}")
                ),
                EndpointUsage(process: group, role: .server, subject: .host("203.0.113.77")),
            ]
        )
        snapshot.sockets = Self.addresses.enumerated().map { index, text in
            SocketUsage(
                cookie: SocketCookie(rawValue: UInt64(index)),
                transport: .tcp,
                family: text.contains(":") ? .ipv6 : .ipv4,
                local: address(text, 443),
                remote: address(text, 50_000),
                role: .server,
                scope: .internet,
                addressClass: "acme-uplink",
                state: .established
            )
        }
        snapshot.interfaces = ["lo", "eth0", "wg-acme", "enx0123456789ab"].map {
            InterfaceUsage(name: $0, sentBytes: 1, receivedBytes: 2)
        }
        snapshot.totals.byClass = ["acme-uplink": ByteCounts()]
        snapshot.totals.byScope = ["internet": ByteCounts(payload: PayloadBytes(sent: 3))]
        return snapshot
    }()

    private static let addresses = [
        "198.51.100.23", "10.11.12.13", "172.20.1.2", "192.168.77.8", "169.254.9.9", "100.99.1.1", "239.1.2.3",
        "2a02:1234:5678::9", "fe80::1234:56ff:fe78:9abc", "fd12:3456:789a::7", "ff02::1:ff78:9abc",
    ]

    /// Every text of a value.
    private func texts(_ value: Any) -> [String] {
        if let text = value as? String { return [text] }
        return Mirror(reflecting: value).children.flatMap { self.texts($0.value) }
    }

    @Test("no name, address or path of the snapshot is in the file")
    func nothingLeft() throws {
        let original = Self.snapshot
        let file = try TemporaryFile(try recorded([original], redacted: Pseudonyms()))
        let recording = try file.recording()
        let redacted = try recording.snapshot(0)
        // What helps a report and is of nobody: words of ours, versions, the kernel's functions.
        let kept: Set<String> = [
            "6.12.9-amd64", "0.1.0", "fexit/tcp_sendmsg", "raw sockets", "lo", "eth0", "internet", "kernel", "root",
        ]
        let names = Set(self.texts(original)).subtracting(kept).filter { $0.utf8.count > 1 }
        #expect(names.count > 20)
        let json = String(decoding: redacted.json(), as: UTF8.self)
        let left = self.texts(redacted) + [json, "\(recording.header)"]
        for name in names { #expect(!left.contains { $0.contains(name) }, "\(name)") }
        for word in ["acme", "hunter2", "billing", "customers", "invoices", "blue", "deadbeef", "evil", "4711", "4712"]
        {
            #expect(!json.contains(word), "\(word)")
        }
        for address in Self.addresses + ["203.0.113.77"] { #expect(!json.contains(address), "\(address)") }
        for word in ["\"lo\"", "\"eth0\"", "\"internet\"", "6.12.9-amd64", "/{id}/", "\"port\":50000"] {
            #expect(json.contains(word), "\(word)")
        }
    }

    @Test("numbers stay, and a group stays one group")
    func consistent() {
        let pseudonyms = Pseudonyms()
        let redacted = Self.snapshot.redacted(pseudonyms)
        let group = redacted.processes.map { ProcessGroup($0[0].details) }
        #expect(group == redacted.exited?[0].group && group == redacted.endpoints?[0].process)
        #expect(redacted.processes?[0].bytes == Self.snapshot.processes?[0].bytes)
        #expect(redacted.totals.byScope == Self.snapshot.totals.byScope)
        #expect(redacted == Self.snapshot.redacted(pseudonyms))
        // Another file has another key.
        #expect(redacted.processes?[0].details.name != Self.snapshot.redacted(Pseudonyms()).processes?[0].details.name)
        let sessions = ["session-3.scope", "session-14.scope"].map { unit in
            var snapshot = Self.snapshot
            snapshot.processes?[0].details.systemdUnit = unit
            return snapshot.redacted(pseudonyms).processes?[0].details.systemdUnit
        }
        #expect(sessions[0] == sessions[1] && sessions[0]?.hasSuffix(".scope") == true)
    }

    @Test("each uid becomes another one, with the same users in its limits; root stays")
    func users() {
        let pseudonyms = Pseudonyms()
        let users = (0..<4_000).map { pseudonyms.uid($0) }
        #expect(Set(users).count == users.count && users[0] == 0)
        #expect(users.allSatisfy { PayingUser($0).uid != nil })
        let blocks = [131_072, 131_073, 196_607, 196_608].map { PayingUser(pseudonyms.uid($0)) }
        #expect(blocks.allSatisfy { $0.uid == nil } && blocks[0] == blocks[1] && blocks[1] == blocks[2])
        #expect(blocks[2] != blocks[3])
        #expect(Set((0..<1_000).map { pseudonyms.uid(131_072 + $0) }).count == 1_000)
        #expect(pseudonyms.uid(1_000) == users[1_000])
        let other = Pseudonyms()
        #expect(users != (0..<4_000).map { other.uid($0) })
    }

    @Test("an address stays in its family and its block", arguments: addresses)
    func blocks(_ text: String) throws {
        let pseudonyms = Pseudonyms()
        let original = try #require(InternetAddress(text))
        let result = pseudonyms.address(original)
        #expect(result != original && result == pseudonyms.address(original))
        #expect(result.isIPv4 == original.isIPv4 && result.isLocalArea == original.isLocalArea)
        #expect(!result.isLoopback && !result.isUnspecified)
    }

    @Test(
        "addresses that are the same everywhere stay",
        arguments: ["127.0.0.1", "127.0.0.53", "::1", "0.0.0.0", "::", "224.0.0.251", "255.255.255.255", "ff02::fb"]
    )
    func wellKnown(_ text: String) throws {
        let original = try #require(InternetAddress(text))
        #expect(Pseudonyms().address(original) == original)
    }
}
