import ArgumentParser
import NIOCore

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Everything that is known now, as JSON, NDJSON or CSV.",
        discussion: """
            The bytes are those of the daemon's answer, unchanged. With --output the file gets its name only when it \
            is complete; if that fails, an earlier file of that name stays as it was. With --filter, the totals are \
            those of the processes that pass.

            EXAMPLES
              trafficctl export | jq '.processes[] | {name, payload_sent_bytes}'
              trafficctl export --format csv --output /var/lib/reports/traffic.csv
            """
    )

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case json, ndjson, csv, tsv
    }

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions

    @Option(
        help: """
            json: one document. ndjson: one object per row, the first with totals and losses. csv, tsv: processes alone; their \
            totals, exited processes and losses are in json and ndjson.
            """
    )
    var format = Format.json

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Write to this file instead of standard output.", valueName: "file"),
        completion: .file()
    )
    var output: String?

    func run() async throws {
        let query = [("format", self.format.rawValue), ("filter", self.filtering.filter)]
        guard let output else {
            try await self.connection.client.stream("/v1/snapshot", query) { part in
                try StandardStream.output.write(part)
            }
            return
        }
        // The daemon is asked first: without an answer there is nothing to write.
        let bytes = try await self.connection.client.get("/v1/snapshot", query)
        let file = try NewFile(path: output)
        try file.write(bytes)
        try file.commit()
    }
}
