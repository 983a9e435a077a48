import ArgumentParser
import TrafficExport
import TrafficLedger
import TrafficModel

#if canImport(Glibc)
import Glibc
import TrafficEvents
#endif

/// Many open sockets, of which each hundredth moves bytes between two ticks.
struct SocketCost: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sockets",
        abstract: "Memory of a socket, and the times of a tick and of a snapshot."
    )

    @Option(help: "Open sockets.")
    var count: UInt64 = 1_000_000

    @Option(help: "Ticks and snapshots; the figures are medians.")
    var rounds = 5

    func run() throws {
        var ledger = Ledger()
        Self.tick(&ledger, 0)
        let before = Self.residentBytes()
        for number in 1...self.count { ledger.absorb(.socket(.connection(number, sent: number % 1_000))) }
        Self.tick(&ledger, 1)
        Self.tick(&ledger, 2)
        let memory = Self.residentBytes() - before
        var (ticks, snapshots, documents) = ([Double](), [Double](), [Double]())
        var (bytes, listed, unlisted) = (0, 0, 0)
        for round in 1...self.rounds {
            ticks.append(
                milliseconds {
                    for number in stride(from: 1, through: self.count, by: 100) {
                        ledger.absorb(.socket(.connection(number, sent: number % 1_000 + UInt64(round))))
                    }
                    Self.tick(&ledger, UInt64(round) + 2)
                }
            )
            var snapshot: Snapshot?
            snapshots.append(milliseconds { snapshot = Self.snapshot(of: ledger) })
            guard let snapshot else { continue }
            (listed, unlisted) = (snapshot.sockets?.count ?? 0, snapshot.socketsUnlisted ?? 0)
            documents.append(milliseconds { bytes = snapshot.json().count })
        }
        print(
            """
            {"sockets": \(self.count), "bytes_per_socket": \(memory / Int(self.count)), "tick_ms": \(median(ticks)), \
            "snapshot_ms": \(median(snapshots)), "json_ms": \(median(documents)), "json_bytes": \(bytes), \
            "listed": \(listed), "unlisted": \(unlisted)}
            """
        )
    }

    private static func tick(_ ledger: inout Ledger, _ second: UInt64) {
        let time = Timestamp(nanosecondsSinceEpoch: Int64(1_700_000_000 + second) * 1_000_000_000)
        ledger.absorb(.tick(at: time, boottimeNanoseconds: (1_000 + second) * 1_000_000_000))
    }

    private static func snapshot(of ledger: Ledger) -> Snapshot {
        ledger.reading(
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            host: HostDescription(name: "host", bootID: "boot", kernel: "6"),
            daemon: DaemonDescription(version: "0", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])
        ).snapshot
    }

    private static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let fields = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self).split(
            separator: " "
        )
        return (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
