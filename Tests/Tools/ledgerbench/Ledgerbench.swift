import ArgumentParser
import TrafficEvents
import TrafficModel

@main
struct Ledgerbench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ledgerbench",
        abstract: "What the daemon's ledger takes: its memory and time, without a kernel. One JSON object.",
        discussion: "swift run -c release ledgerbench sockets --count 1000000",
        subcommands: [SocketCost.self, JoinCost.self, HistoryCost.self, CheckpointCost.self, MetricsCost.self]
    )
}

/// Milliseconds.
func milliseconds(_ body: () throws -> Void) rethrows -> Double {
    let clock = ContinuousClock()
    return try clock.measure(body) / .milliseconds(1)
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

extension SocketObservation {
    /// A TCP connection of a process, one of four users' processes.
    static func connection(_ number: UInt64, sent: UInt64) -> SocketObservation {
        let process = Int32(number % 400) + 1
        let user = UInt32(process % 4) + 1_000
        let owner = OwnerObservation(
            identity: ProcessIdentity(pid: process, startBoottimeNanoseconds: 5),
            name: "server",
            uid: user,
            payload: PayloadBytes(sent: sent, received: 100)
        )
        let address = { InternetAddress($0) ?? InternetAddress(bytes: InlineArray(repeating: 0)) }
        return SocketObservation(
            serial: number,
            cookie: SocketCookie(rawValue: number),
            transport: .tcp,
            family: .ipv4,
            local: SocketAddress(address: address("198.18.0.1"), port: 80),
            remote: SocketAddress(
                address: address("198.19.\(number >> 8 & 255).\(number & 255)"),
                port: UInt16(truncatingIfNeeded: 1024 + number >> 16)
            ),
            role: .server,
            state: .established,
            openedBoottimeNanoseconds: 1_000_000_000,
            tcp: TCPCounters(retransmittedBytes: 0),
            wire: SocketWire(),
            owners: [owner],
            uid: user
        )
    }
}
