import ArgumentParser
import TrafficEvents
import TrafficLedger
import TrafficModel

/// A ledger of 500 processes, as the daemon saves it and restores it.
struct CheckpointCost: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkpoint",
        abstract: "Bytes of a checkpoint, and milliseconds to make it and to restore the ledger."
    )

    @Option(help: "Open sockets.")
    var count: [UInt64] = [1_000, 100_000]

    @Option(help: "Processes.")
    var processes: Int32 = 500

    @Option(help: "The figures are medians.")
    var rounds = 9

    func run() throws {
        for count in self.count {
            var ledger = Ledger()
            self.fill(&ledger, count)
            var (encodings, decodings) = ([Double](), [Double]())
            var bytes: [UInt8] = []
            for _ in 1...self.rounds {
                encodings.append(milliseconds { bytes = ledger.checkpoint() })
                var restored: Ledger?
                decodings.append(try milliseconds { restored = try Ledger(checkpoint: bytes) })
                let since = Timestamp(nanosecondsSinceEpoch: 0)
                guard restored?.balance(countingSince: since) == ledger.balance(countingSince: since) else {
                    throw ValidationError("the restored ledger has other sums")
                }
            }
            print(
                """
                {"sockets": \(count), "processes": \(self.processes), "bytes": \(bytes.count), \
                "encode_ms": \(median(encodings)), "decode_ms": \(median(decodings))}
                """
            )
        }
    }

    private func fill(_ ledger: inout Ledger, _ count: UInt64) {
        for number in 1...count {
            var socket = SocketObservation.connection(number, sent: number * 977)
            let process = Int32(number % UInt64(self.processes)) + 1
            socket.owners[0].identity.pid = process
            ledger.absorb(.socket(socket))
        }
        for number in 1...self.processes {
            let identity = ProcessIdentity(pid: number, startBoottimeNanoseconds: 5)
            let details = ProcessDetails(
                name: "server\(number % 100)",
                executable: "/usr/bin/server\(number % 100)",
                commandLine: ["/usr/bin/server\(number % 100)", "--port", "\(number)"],
                uid: 1_000,
                user: "service",
                systemdUnit: "server\(number % 100).service",
                cgroup: "/system.slice/server\(number % 100).service",
                startedAt: Timestamp(nanosecondsSinceEpoch: 1_700_000_000_000_000_000)
            )
            ledger.absorb(.details(identity, details))
        }
        for second in UInt64(0)...2 {
            let time = Timestamp(nanosecondsSinceEpoch: Int64(1_700_000_000 + second) * 1_000_000_000)
            ledger.absorb(.tick(at: time, boottimeNanoseconds: (1_000 + second) * 1_000_000_000))
        }
    }
}
