import ArgumentParser
import TrafficEvents
import TrafficLedger
import TrafficMetrics
import TrafficModel
import TrafficReport

/// A scrape: what the ledger and the writer take for it, and how long the text is.
struct MetricsCost: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics",
        abstract: "Milliseconds on the counting thread and for the text of a scrape, and the bytes of the text."
    )

    @Option(help: "Programs, of 8 users in turn.")
    var programs = 500

    @Option(help: "Endpoints, as many of clients as of servers.")
    var endpoints = 100

    @Option(help: "The figure is the median.")
    var rounds = 9

    private static let users: UInt32 = 8

    func run() throws {
        var ledger = Ledger()
        self.tick(&ledger, 0)
        for number in 1...self.programs { self.begin(number, in: &ledger) }
        self.tick(&ledger, 1)
        ledger.absorb(.reports(self.reports(), dropped: 0))
        self.tick(&ledger, 2)
        var (reading, text): (MetricsReading?, [UInt8]) = (nil, [])
        let readTimes = (1...self.rounds).map { _ in milliseconds { reading = self.read(ledger) } }
        guard let reading else { throw ValidationError("--rounds must be 1 or more") }
        let document = MetricsDocument(reading, process: OwnProcess.now())
        let writeTimes = (1...self.rounds).map { _ in milliseconds { text = document.encoded(as: .openMetrics) } }
        let series = text.split(separator: UInt8(ascii: "\n")).count { $0.first != UInt8(ascii: "#") }
        print(
            """
            {"programs": \(reading.processes.series.count), "endpoints": \(reading.endpoints.series.count), \
            "series": \(series), "ms_on_counting_thread": \(median(readTimes)), "ms_of_text": \(median(writeTimes)), \
            "bytes": \(text.count)}
            """
        )
    }

    private func read(_ ledger: Ledger) -> MetricsReading {
        ledger.metrics(
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            daemon: DaemonDescription(version: "0", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])
        )
    }

    private func tick(_ ledger: inout Ledger, _ second: UInt64) {
        let time = Timestamp(nanosecondsSinceEpoch: Int64(1_700_000_000 + second) * 1_000_000_000)
        ledger.absorb(.tick(at: time, boottimeNanoseconds: (1_000 + second) * 1_000_000_000))
    }

    private func user(_ number: Int) -> UInt32 { 1_000 + UInt32(number) % Self.users }

    private func begin(_ number: Int, in ledger: inout Ledger) {
        let process = ProcessIdentity(pid: Int32(number), startBoottimeNanoseconds: 5)
        var connection = SocketObservation.connection(UInt64(number), sent: 0)
        connection.owners = [
            OwnerObservation(
                identity: process,
                name: "program-\(number)",
                uid: self.user(number),
                payload: PayloadBytes(sent: 1 << 40 + UInt64(number), received: 12_345_678_901)
            )
        ]
        ledger.absorb(.socket(connection))
        let details = ProcessDetails(
            name: "program-\(number)",
            executable: "/usr/lib/services/program-\(number)/bin/program-\(number)",
            uid: self.user(number),
            systemdUnit: "program-\(number).service"
        )
        ledger.absorb(.details(process, details))
    }

    /// Each exchange has a connection's process as its sender, and a duration of its own.
    private func reports() -> [ReceivedReport] {
        (0..<self.endpoints).map { number in
            let isClient = number % 2 == 0
            let name = Report.Name(method: "GET", host: "api-\(number).example", route: "/v1/things/{id}/\(number)")
            var exchange = Report.Exchange(number: 1, name: name)
            exchange.role = isClient ? .client : .server
            exchange.startedAt = 1_000_500_000_000
            var outcome = Report.Exchange.Outcome()
            outcome.duration = UInt64(number) * 3_000_000
            (outcome.status, outcome.ending) = (200, .ok)
            exchange.outcome = outcome
            var writer = ReportWriter()
            _ = writer.append(.exchange(exchange))
            var header = Report.Header()
            header.sequence = UInt32(number / self.programs)
            let datagram = writer.finish(header) { bytes in bytes.indices.map { bytes[$0] } }
            return ReceivedReport(
                pid: Int32(number % self.programs + 1),
                uid: self.user(number % self.programs + 1),
                startTicks: 0,
                datagram: datagram
            )
        }
    }
}
