import ArgumentParser
import NIOCore
import TrafficModel
import TrafficView

/// Options of the commands that print rows.
struct RowOptions: ParsableArguments {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, json, ndjson, csv
    }

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(help: "table: aligned on a terminal, with tabs and exact numbers elsewhere.")
    var format = Format.table

    @Option(help: "Largest first for amounts, A to Z for names.")
    var sort = SortKey.total

    @Option(help: ArgumentHelp("At most so many rows.", valueName: "n"))
    var limit: Int?

    func validate() throws {
        if let limit, limit < 0 { throw ValidationError("--limit must not be negative.") }
    }

    /// - Parameters:
    ///   - path: Of the control API.
    ///   - table: Makes the rows, all of them, in order.
    func run(_ path: String, table: (Snapshot) -> Table) async throws {
        var query: [(String, String?)] = [("filter", self.filtering.filter)]
        if self.format != .table {
            query += [
                ("format", self.format.rawValue), ("sort", self.sort.rawValue), ("limit", self.limit.map(String.init)),
            ]
            return try await self.connection.client.stream(path, query) { part in
                try unsafe part.withUnsafeReadableBytes { try unsafe StandardStream.output.write($0) }
            }
        }
        let snapshot = try Snapshot(json: try await self.connection.client.get(path, query))
        let table = table(snapshot).prefix(self.limit ?? .max)
        let output = StandardStream.output
        let typeface = Locale.typeface(ascii: false)
        guard output.isTerminal else { return try output.write(table.tabSeparated(typeface: typeface)) }
        let frame = table.frame(width: output.columns ?? 80, typeface: typeface, units: self.unit.units)
        try output.write(frame, inColor: self.color.isWanted)
    }
}

struct Processes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "A row per process, with its bytes.",
        discussion: """
            Bytes are payload since counting began: what the process wrote to and read from its sockets. Rates are those of the
            last second. A process that exited stays for five minutes.

            EXAMPLES
              trafficctl processes --sort rate --limit 10
              trafficctl processes --filter 'unit:nginx.service' --bits
              trafficctl processes --format csv > processes.csv
            """
    )

    @OptionGroup var options: RowOptions

    func run() async throws {
        try await self.options.run("/v1/processes") { .processes($0, order: RowOrder(self.options.sort)) }
    }
}

struct Sockets: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "A row per socket, with its ends, its bytes and its owner.",
        discussion: """
            EXAMPLES
              trafficctl sockets --filter 'port:443 rx>1M'
              trafficctl sockets --sort received --limit 20
            """
    )

    @OptionGroup var options: RowOptions

    func run() async throws {
        try await self.options.run("/v1/sockets") { .sockets($0, order: RowOrder(self.options.sort)) }
    }
}
