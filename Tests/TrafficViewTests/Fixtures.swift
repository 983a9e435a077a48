import Foundation
import Testing
import TrafficModel

@testable import TrafficView

/// A small host with one of everything that looks different, and numbers that never change.
enum Fixture {
    static let start = Timestamp(nanosecondsSinceEpoch: 1_790_000_000_000_000_000)

    static func time(_ seconds: Double) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: Self.start.nanosecondsSinceEpoch + Int64(seconds * 1e9))
    }

    /// wcwidth(3) for the test's own letters. The driver uses the C library's wcwidth(3).
    static let unicode = Typeface.unicode { scalar in
        switch scalar.value {
        case 0x300...0x36f: 0
        case 0x1100...0x115f, 0x2e80...0x9fff, 0xac00...0xd7a3, 0xff00...0xff60, 0x1f300...0x1faff: 2
        default: 1
        }
    }

    static func identity(_ pid: Int32) -> ProcessIdentity {
        ProcessIdentity(pid: pid, startBoottimeNanoseconds: UInt64(pid) * 1000)
    }

    static func process(
        _ pid: Int32,
        _ name: String,
        user: String? = "root",
        executable: String? = nil,
        command: [String]? = nil,
        unit: String? = nil,
        container: String? = nil,
        sockets: Int = 1,
        payload: PayloadBytes = PayloadBytes(),
        rates: PayloadRates = PayloadRates()
    ) -> ProcessUsage {
        ProcessUsage(
            identity: Self.identity(pid),
            details: ProcessDetails(
                name: name,
                executable: executable,
                commandLine: command,
                uid: 1000,
                user: user,
                systemdUnit: unit,
                containerID: container,
                startedAt: Self.time(-5000)
            ),
            socketsOpen: sockets,
            bytes: ByteCounts(payload: payload),
            rates: rates
        )
    }

    static func address(_ text: String, _ port: UInt16) throws -> SocketAddress {
        SocketAddress(address: try #require(InternetAddress(text)), port: port)
    }

    static func socket(
        _ cookie: UInt64,
        of pid: Int32,
        local: SocketAddress,
        remote: SocketAddress,
        role: SocketRole = .server,
        state: SocketState = .established,
        transport: TransportProtocol = .tcp,
        payload: PayloadBytes = PayloadBytes(),
        rates: PayloadRates = PayloadRates(),
        roundTrip: UInt64? = nil,
        retransmitted: UInt64? = nil,
        opened: Double? = -60
    ) -> SocketUsage {
        SocketUsage(
            cookie: SocketCookie(rawValue: cookie),
            transport: transport,
            family: local.address.isIPv4 ? .ipv4 : .ipv6,
            local: local,
            remote: remote,
            role: role,
            scope: SocketScope(local: local.address, remote: remote.address),
            state: state,
            openedAt: opened.map(Self.time),
            bytes: ByteCounts(payload: payload),
            rates: rates,
            retransmittedSegments: retransmitted,
            smoothedRoundTripMicroseconds: roundTrip,
            owners: [.init(identity: Self.identity(pid), payload: payload)]
        )
    }

    /// - Parameter tick: Seconds since the first snapshot; only nginx's rate follows it.
    static func snapshot(tick: Int = 0, withSockets: Bool = false) throws -> Snapshot {
        let rate = Double(1_000_000 * (tick % 7 + 1))
        let processes = [
            Self.process(
                812,
                "nginx",
                user: "www-data",
                executable: "/usr/sbin/nginx",
                command: ["nginx: worker process"],
                unit: "nginx.service",
                sockets: 4,
                payload: PayloadBytes(sent: 123_456_789_012, received: 987_654_321),
                rates: PayloadRates(sent: rate, received: 52_300)
            ),
            Self.process(
                4_194_304,
                "node",
                user: "systemd-network",
                executable: "/usr/bin/node",
                command: ["node", "/srv/shop/server.js", "--port", "8080"],
                unit: "docker-3f2a.scope",
                container: "3f2a9b1c77de0a8f4411",
                sockets: 10_240,
                payload: PayloadBytes(sent: 999_499, received: 999_500),
                rates: PayloadRates(sent: 999, received: 2_100_000)
            ),
            Self.process(
                77,
                "evil\u{1b}[2J\u{202e}x",
                user: nil,
                executable: "/tmp/a\nb",
                command: ["\u{1b}]0;pwn\u{7}", "a\tb"],
                payload: PayloadBytes(sent: 12, received: 0)
            ),
            Self.process(901, "日本語サーバ", user: "app", executable: "/usr/bin/日本", unit: "日本.service", sockets: 2),
            Self.exited(1301),
            Self.process(2, "kernel:kworker", sockets: 0),
        ]
        return Snapshot(
            takenAt: Self.time(Double(tick)),
            takenBoottimeNanoseconds: UInt64(tick + 1000) * 1_000_000_000,
            countingSince: Self.time(-93_784),
            host: HostDescription(name: "web-1", bootID: "b", kernel: "6.12.0"),
            daemon: DaemonDescription(version: "0.1.0", pid: 7, startedAt: Self.time(-93_784)),
            capture: CaptureStatus(method: .fexit, hooks: ["fexit/tcp_sendmsg"], blindSpots: []),
            processes: processes,
            exited: [
                ExitedUsage(
                    group: ProcessGroup(name: "git", executable: "/usr/bin/git", uid: 0),
                    user: "root",
                    processes: 1204,
                    bytes: ByteCounts(payload: PayloadBytes(sent: 5_000_000, received: 7_000_000))
                )
            ],
            sockets: withSockets ? try Self.sockets(nginxRate: rate) : nil,
            interfaces: [
                InterfaceUsage(
                    name: "eth0",
                    sentBytes: 200_000_000_000,
                    receivedBytes: 3_000_000_000,
                    sentBytesPerSecond: rate,
                    receivedBytesPerSecond: 2_150_000
                ),
                InterfaceUsage(
                    name: "lo",
                    sentBytes: 5000,
                    receivedBytes: 5000,
                    sentBytesPerSecond: 0,
                    receivedBytesPerSecond: 0
                ),
                InterfaceUsage(name: "wg0", sentBytes: 100, receivedBytes: 50),
            ],
            totals: Totals(
                bytes: ByteCounts(payload: PayloadBytes(sent: 123_462_788_000, received: 995_654_000)),
                rates: PayloadRates(sent: rate + 999, received: 2_152_300),
                byScope: [
                    "internet": ByteCounts(payload: PayloadBytes(sent: 123_000_000_000, received: 990_000_000)),
                    "lan": ByteCounts(payload: PayloadBytes(sent: 462_776_000, received: 5_650_000)),
                    "same_host": ByteCounts(payload: PayloadBytes(sent: 12_000, received: 4_000)),
                    "loopback": ByteCounts(),
                ]
            )
        )
    }

    private static func exited(_ pid: Int32) -> ProcessUsage {
        var process = Self.process(
            pid,
            "curl",
            user: "deploy",
            executable: "/usr/bin/curl",
            unit: "session-12.scope",
            sockets: 0,
            payload: PayloadBytes(sent: 532, received: 1_048_576)
        )
        process.state = .exited
        process.exitedAt = Self.time(-97)
        return process
    }

    private static func sockets(nginxRate: Double) throws -> [SocketUsage] {
        let web = try Self.address("10.0.0.5", 443)
        let web6 = try Self.address("2001:db8::5", 443)
        return [
            Self.socket(
                1,
                of: 812,
                local: web,
                remote: try Self.address("192.168.100.200", 51234),
                payload: PayloadBytes(sent: 120_000_000_000, received: 900_000_000),
                rates: PayloadRates(sent: nginxRate - 1000, received: 52_000),
                roundTrip: 1234,
                retransmitted: 3
            ),
            Self.socket(
                2,
                of: 812,
                local: web6,
                remote: try Self.address("2001:db8:85a3::8a2e:370:7334", 40000),
                payload: PayloadBytes(sent: 3_000_000_000, received: 80_000_000),
                rates: PayloadRates(sent: 1000, received: 300),
                roundTrip: 85,
                opened: -7300
            ),
            Self.socket(
                3,
                of: 812,
                local: try Self.address("10.0.0.5", 39876),
                remote: try Self.address("10.0.0.9", 5432),
                role: .client,
                state: .closeWait,
                roundTrip: 340_000,
                retransmitted: 1200,
                opened: nil
            ),
            Self.socket(
                4,
                of: 812,
                local: try Self.address("0.0.0.0", 443),
                remote: try Self.address("0.0.0.0", 0),
                role: .listener,
                state: .listen
            ),
            Self.socket(
                5,
                of: 901,
                local: try Self.address("0.0.0.0", 53),
                remote: try Self.address("0.0.0.0", 0),
                role: .peer,
                state: .unconnected,
                transport: .udp
            ),
        ]
    }

    /// `top` that has seen `ticks` snapshots.
    static func top(
        width: Int = 80,
        height: Int = 24,
        typeface: Typeface = Fixture.unicode,
        ticks: Int = 30,
        withSockets: Bool = false
    ) throws -> TopState {
        var state = TopState(
            size: .init(width: width, height: height),
            typeface: typeface,
            address: "/run/trafficd/control.sock"
        )
        for tick in 0..<ticks { state.receive(try Self.snapshot(tick: tick, withSockets: withSockets)) }
        return state
    }
}

extension TopState {
    /// Types keys as a person would.
    mutating func press(_ keys: Key...) {
        for key in keys {
            if let action = KeyBindings.action(for: key, in: self.mode) { self.apply(action) }
        }
    }

    mutating func type(_ text: String) {
        for character in text { self.press(.character(character)) }
    }

    /// The line of the list under the cursor.
    var selectedText: String {
        self.frame().rows.first { $0.spans.contains { $0.style.isSelected } }?.text ?? ""
    }
}
