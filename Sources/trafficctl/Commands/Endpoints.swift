import ArgumentParser
import NIOCore
import TrafficExport
import TrafficModel
import TrafficView

struct Endpoints: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "A row per endpoint (HTTP host and route), with its messages' bytes.",
        discussion: """
            Shows endpoints of programs that use TrafficKit or send its report format. SENT and RECV are the bytes of \
            HTTP: start lines, headers, bodies and their framing. QUALITY is exact where the kernel's count of the \
            socket confirms every message.

            --by host and --by type group the same exchanges differently. A type is the Content-Type of the response's \
            body: unknown until there is a response, none where the response has no body or never came.

            EXAMPLES
              trafficctl endpoints --sort received         which endpoint eats the traffic
              trafficctl endpoints --sort p90 --limit 10   which is slow
              trafficctl endpoints --sort wasted           failed, throttled, redirected
              trafficctl endpoints --by type               json, image and others
              trafficctl endpoints --by host --sort sent   which hosts they go to
              trafficctl endpoints --filter unit:shop.service --format json | jq '.endpoints[] | {route, sent}'
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(help: "table: for people. tsv, csv: the fields by their JSON names. json, ndjson: everything.")
    var format = RowOptions.Format.table

    @Option(help: "How to group the rows of a process.")
    var by = EndpointGrouping.route

    @Option(name: .shortAndLong, help: "Largest first for amounts, A to Z for names.")
    var sort = EndpointSortKey.total

    @Flag(name: .shortAndLong, help: "Reverse the order.")
    var reverse = false

    @OptionGroup var limiting: LimitOption

    func run() async throws {
        let query = [("filter", self.filtering.filter), ("by", self.by.rawValue)]
        let answer = try await self.connection.client.get("/v1/endpoints", query)
        let snapshot = try Snapshot(json: answer).withEndpoints(
            sortedBy: self.sort,
            reversed: self.reverse,
            limit: self.limiting.limit
        )
        if let format = self.format.export {
            let bytes = snapshot.encoded(as: format, table: .endpoints)
            return try StandardStream.output.write(ByteBuffer(bytes: bytes))
        }
        let hint = "No program has reported any exchange; trafficctl processes has every program's bytes."
        try Table.endpoints(snapshot, by: self.by).write(
            units: self.unit.units,
            color: self.color,
            ifEmpty: hint
        )
    }
}
