import ArgumentParser
import NIOCore
import TrafficExport
import TrafficModel
import TrafficView

/// Options of the commands that print rows.
struct RowOptions: ParsableArguments {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, tsv, json, ndjson, csv

        /// `nil` for the table, which trafficctl makes itself.
        var export: ExportFormat? { ExportFormat(rawValue: self.rawValue) }
    }

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(help: "table: for people. tsv, csv: the fields of one list, by their JSON names. json, ndjson: everything.")
    var format = Format.table

    @Option(name: .shortAndLong, help: "Largest first for amounts, A to Z for names. (default for tables: total)")
    var sort: SortKey?

    @Flag(name: .shortAndLong, help: "Reverse the order.")
    var reverse = false

    @OptionGroup var limiting: LimitOption

    private var order: RowOrder { RowOrder(self.sort ?? .total, isReversed: self.reverse) }

    func printProcesses() async throws {
        try await self.run("/v1/processes", csv: .processes, table: Table.processes) {
            $0.withProcesses(sortedBy: self.order, limit: self.limiting.limit)
        }
    }

    func printSockets() async throws {
        try await self.run("/v1/sockets", csv: .sockets, table: Table.sockets) {
            $0.withSockets(sortedBy: self.order, limit: self.limiting.limit)
        }
    }

    /// - Parameters:
    ///   - path: A path of the control API.
    ///   - csv: The list that CSV contains.
    ///   - choose: Orders the rows and cuts the list.
    private func run(
        _ path: String,
        csv: Snapshot.Table,
        table: (Snapshot) -> Table,
        choose: (Snapshot) -> Snapshot
    ) async throws {
        let client = try self.connection.client
        let output = StandardStream.output
        if let format = self.format.export, self.sort == nil, !self.reverse, self.limiting.limit == nil {
            // The rows stay as they are, so the daemon's bytes go out unchanged.
            let query = [("filter", self.filtering.filter), ("format", format.rawValue)]
            return try await client.stream(path, query) { try output.write($0) }
        }
        let snapshot = choose(try Snapshot(json: try await client.get(path, [("filter", self.filtering.filter)])))
        if let format = self.format.export {
            return try output.write(ByteBuffer(bytes: snapshot.encoded(as: format, table: csv)))
        }
        try table(snapshot).write(units: self.unit.units, color: self.color)
    }
}
