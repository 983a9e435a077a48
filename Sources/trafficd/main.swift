import Glibc
import TrafficCapture
import TrafficLedger
import TrafficModel

let sel = try RungSelection(
    wanted: CommandLine.arguments.count > 1 ? CaptureRung(rawValue: CommandLine.arguments[1]) : nil
)
print(sel.source.status)
let a = Accountant(
    source: sel.source,
    resolver: try ProcessResolver(),
    retention: .init(),
    daemon: HostFacts.daemon(version: "x")
) { s in
    for p in s.processes ?? [] { print(p.identity.pid, p.details.name, p.socketsOpen, p.bytes.payload, p.rates.total) }
    for p in (s.sockets ?? []).prefix(20) {
        print(" ", p.transport, p.local, p.remote, p.state, p.bytes.payload, p.owners.count, p.preexisting)
    }
    print("--", s.sockets?.count ?? -1, s.capture.loss)
}
try a.run(interval: .seconds(1), stopper: try Stopper())
