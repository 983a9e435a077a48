public import ArgumentParser
import CommandOptions
import FoundationEssentials
import NIOCore
import TrafficExport
import TrafficLimits
import TrafficModel
public import TrafficView

struct Exchanges: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "The last requests and responses, and those still running.",
        discussion: """
            The newest exchange comes last, and --limit keeps the newest. With --follow, trafficctl goes on with the \
            exchanges that end from now on.

            PHASES has a letter for each tenth of TIME: d dns, c connect, t tls, s send, w wait, r receive. Only the \
            first exchange of a connection has d, c and t, which are part of its TIME. A wide terminal shows the HTTP \
            version too. Times are UTC.

            EXAMPLES
              trafficctl exchanges --limit 20
              trafficctl exchanges --follow --filter 'host:api.example status:5xx'
              trafficctl exchanges --sort time --limit 10   the slowest
              trafficctl exchanges --filter process:shop --format ndjson | jq 'select(.outcome != "ok")'
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(help: "table: for people. tsv, csv, json, ndjson: the fields by their JSON names.")
    var format = RowOptions.Format.table

    @Option(name: .shortAndLong, help: "started: newest last. All other keys: largest first.")
    var sort = ExchangeSortKey.started

    @Flag(name: .shortAndLong, help: "Reverse the order.")
    var reverse = false

    @OptionGroup var limiting: LimitOption

    @Flag(help: "Go on with exchanges that end from now on, until stopped.")
    var follow = false

    @OptionGroup var interval: IntervalOption

    func validate() throws {
        guard self.follow else { return }
        if self.sort != .started || self.reverse { throw ValidationError("--follow shows exchanges as they end.") }
        if self.format == .json || self.format == .csv {
            throw ValidationError("--follow has no end: take --format table, tsv or ndjson.")
        }
    }

    func run() async throws {
        var report = try await self.report()
        var seen = Followed(report)
        try self.write(
            report.sorted(by: self.sort, reversed: self.reverse, limit: self.limiting.limit),
            ifEmpty: self.follow ? nil : "No program has reported any exchange."
        )
        while self.follow {
            try await Task.sleep(for: self.interval.interval.duration)
            report = try await self.report()
            let isComplete = seen.keepNew(&report)
            if !isComplete {
                try StandardStream.error.write(
                    "trafficctl: more exchanges ended than the daemon lists; take a shorter --interval\n"
                )
            }
            if !report.exchanges.isEmpty { try self.write(report, isFirst: false) }
        }
    }

    private func report() async throws -> ExchangeReport {
        let query = [("filter", self.filtering.filter)]
        return try await self.connection.client.get("/v1/exchanges", query).decoded(as: ExchangeReport.self)
    }

    private func write(_ report: ExchangeReport, isFirst: Bool = true, ifEmpty hint: String? = nil) throws {
        if let format = self.format.export {
            var bytes = report.encoded(as: format)[...]
            // The names of the columns come once.
            if !isFirst, format == .tsv { bytes = bytes.drop { $0 != UInt8(ascii: "\n") }.dropFirst() }
            return try StandardStream.output.write(ByteBuffer(bytes: bytes))
        }
        var table = Table.exchanges(report.exchanges)
        table.hasTitles = isFirst
        try table.write(units: self.unit.units, color: self.color, ifEmpty: hint)
    }
}

extension ExchangeSortKey: ExpressibleByArgument {}

/// Which exchanges have been shown.
private struct Followed {
    private struct Key: Hashable {
        var process: ProcessIdentity
        var exchange: UInt64
    }

    private var ended: Set<Key>

    init(_ report: ExchangeReport) {
        self.ended = Set(report.exchanges.filter { $0.outcome != nil }.map(Self.key))
    }

    private static func key(_ exchange: ExchangeUsage) -> Key {
        Key(process: exchange.process, exchange: exchange.exchange)
    }

    /// Leaves those that have ended since.
    ///
    /// - Returns: `false` where the list is full of new exchanges, so that others may have been on the list meanwhile.
    mutating func keepNew(_ report: inout ExchangeReport) -> Bool {
        let ended = report.exchanges.filter { $0.outcome != nil }
        let known = self.ended
        self.ended = Set(ended.map(Self.key))
        report.exchanges = ended.filter { !known.contains(Self.key($0)) }
        // A list with an exchange that was there before lacks none. The first exchanges of all lack none if the list had
        // room for more.
        let isFirst = known.isEmpty && ended.count < ReportLimits.endedExchanges.user
        return isFirst || report.exchanges.count < ended.count
    }
}
