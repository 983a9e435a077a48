import ArgumentParser
import TrafficEvents
import TrafficLedger
import TrafficModel
import TrafficReport

/// Exchanges of servers, reported as the library reports them: a datagram holds 100 exchanges of one endpoint.
struct JoinCost: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "joins",
        abstract: """
            Microseconds to read a pair of messages and to join it with the kernel's count, and milliseconds of a round \
            of one report.
            """
    )

    private static let inDatagram = 100
    private static let (request, response): (UInt64, UInt64) = (100, 200)

    @Option(help: "Exchanges in each round.")
    var count = 100_000

    @Option(help: "The figure is the median.")
    var rounds = 9

    @Option(help: "Connections, which take turns.")
    var connections = 64

    @Option(help: "Open sockets that no report names.")
    var others: UInt64 = 0

    func run() throws {
        let server = ProcessIdentity(pid: 1, startBoottimeNanoseconds: 5)
        // A round of all exchanges, and then one of a single further report.
        var (times, shortTimes) = ([Double](), [Double]())
        var joined: UInt64 = 0
        for _ in 1...self.rounds {
            var ledger = Ledger()
            self.tick(&ledger, 0)
            let each = UInt64(self.count / self.connections + 1)
            for number in 1...UInt64(self.connections) {
                var connection = SocketObservation.connection(number, sent: each * Self.response)
                connection.owners[0].identity = server
                connection.owners[0].payload.received = each * Self.request
                ledger.absorb(.socket(connection))
            }
            for number in 0..<self.others {
                ledger.absorb(.socket(.connection(UInt64(self.connections) + 1 + number, sent: 0)))
            }
            ledger.absorb(.details(server, ProcessDetails(name: "server", executable: "/bin/server", uid: 1_000)))
            self.tick(&ledger, 1)
            let reports = self.datagrams(0..<self.count)
            times.append(milliseconds { ledger.absorb(.reports(reports, dropped: 0)) })
            let next = self.datagrams(self.count..<self.count + 1)
            shortTimes.append(milliseconds { ledger.absorb(.reports(next, dropped: 0)) })
            joined = ledger.withLosses(CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])).reports.joined
        }
        guard joined == 2 * UInt64(self.count + 1) else {
            throw ValidationError("joined \(joined) of \(2 * (self.count + 1)) messages")
        }
        print(
            """
            {"exchanges": \(self.count), "us_per_exchange": \(median(times) * 1_000 / Double(self.count)), \
            "others": \(self.others), "ms_of_one_report": \(median(shortTimes))}
            """
        )
    }

    private func tick(_ ledger: inout Ledger, _ second: UInt64) {
        let time = Timestamp(nanosecondsSinceEpoch: Int64(1_700_000_000 + second) * 1_000_000_000)
        ledger.absorb(.tick(at: time, boottimeNanoseconds: (1_000 + second) * 1_000_000_000))
    }

    private func datagrams(_ exchanges: Range<Int>) -> [ReceivedReport] {
        stride(from: exchanges.lowerBound, to: exchanges.upperBound, by: Self.inDatagram).map { first in
            var writer = ReportWriter()
            for index in first..<min(first + Self.inDatagram, exchanges.upperBound) {
                _ = writer.append(.exchange(self.exchange(UInt64(index))))
            }
            var header = Report.Header()
            header.sequence = UInt32(first / Self.inDatagram)
            let datagram = writer.finish(header) { bytes in bytes.indices.map { bytes[$0] } }
            return ReceivedReport(pid: 1, uid: 1_000, startTicks: 0, datagram: datagram)
        }
    }

    private func exchange(_ index: UInt64) -> Report.Exchange {
        let turn = index / UInt64(self.connections)
        var exchange = Report.Exchange(
            number: index + 1,
            name: Report.Name(method: "GET", host: "api.example", route: "/users/{id}")
        )
        exchange.cookie = index % UInt64(self.connections) + 1
        exchange.startedAt = 1_000_500_000_000
        exchange.role = .server
        exchange.request = self.message(Self.request, at: turn, status: 0)
        exchange.response = self.message(Self.response, at: turn, status: 200)
        var outcome = Report.Exchange.Outcome()
        outcome.duration = 1_000_000 + index % 50_000_000
        outcome.status = 200
        outcome.ending = .ok
        exchange.outcome = outcome
        return exchange
    }

    private func message(_ bytes: UInt64, at turn: UInt64, status: UInt16) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = .init(from: turn * bytes, to: (turn + 1) * bytes)
        (message.startedAt, message.finishedAt) = (1_000_500_000_000, 1_000_501_000_000)
        (message.lineBytes, message.headerBytes, message.bodyBytes) = (20, 40, bytes - 60)
        message.decodedBodyBytes = message.bodyBytes
        message.declaredBodyBytes = message.bodyBytes
        message.status = status
        message.version = .http1_1
        message.quality = .exact
        message.contentClass = .json
        return message
    }
}
