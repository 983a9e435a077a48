import ArgumentParser
import NIOCore
import TrafficExport
import TrafficModel
import TrafficView

/// Options of the commands that print rows.
struct RowOptions: ParsableArguments {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, json, ndjson, csv

        /// `nil` for the one format that is made here.
        var export: ExportFormat? { ExportFormat(rawValue: self.rawValue) }
    }

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(help: "table: aligned on a terminal; elsewhere with tabs, a line of names, and exact numbers.")
    var format = Format.table

    @Option(help: "Largest first for amounts, A to Z for names. (default for tables: total)")
    var sort: SortKey?

    @OptionGroup var limiting: LimitOption

    private var order: RowOrder { RowOrder(self.sort ?? .total) }

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
    ///   - path: Of the control API.
    ///   - csv: The list that CSV has.
    ///   - choose: Orders and cuts the list that this is about.
    private func run(
        _ path: String,
        csv: Snapshot.Table,
        table: (Snapshot) -> Table,
        choose: (Snapshot) -> Snapshot
    ) async throws {
        let client = self.connection.client
        let output = StandardStream.output
        if let format = self.format.export, self.sort == nil, self.limiting.limit == nil {
            // Nothing to do to it: the bytes as the daemon made them.
            let query = [("filter", self.filtering.filter), ("format", format.rawValue)]
            return try await client.stream(path, query) { try output.write($0) }
        }
        let snapshot = choose(try Snapshot(json: try await client.get(path, [("filter", self.filtering.filter)])))
        if let format = self.format.export {
            return try output.write(ByteBuffer(bytes: snapshot.encoded(as: format, table: csv)))
        }
        try table(snapshot).write(units: self.unit.units, inColor: self.color.isWanted)
    }
}
