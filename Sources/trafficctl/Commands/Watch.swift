import ArgumentParser
import CommandOptions
import NIOCore

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "One snapshot per interval as a line of JSON (NDJSON), until stopped.",
        discussion: """
            Each line is a whole snapshot, written as soon as it is there. With --filter, a line has only the rows \
            that pass, and its totals are those of the processes that pass, each with all its sockets.

            EXAMPLES
              trafficctl watch --interval 10s | jq -c '.totals.rates'
              trafficctl watch --filter unit:nginx.service --count 3 | jq .totals
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions

    @OptionGroup var interval: IntervalOption

    @Option(name: [.customShort("n"), .long], help: ArgumentHelp("Stop after this many snapshots.", valueName: "n"))
    var count: Int?

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be at least 1.") }
    }

    func run() async throws {
        let query = [
            ("interval", "\(self.interval.interval.seconds)"), ("view", "snapshot"), ("filter", self.filtering.filter),
        ]
        var lines = LineSplitter()
        var left = self.count ?? .max
        do {
            try await self.connection.client.stream("/v1/stream", query) { part in
                lines.append(part)
                while let line = lines.next() {
                    try StandardStream.output.write(line)
                    left -= 1
                    if left == 0 { throw EnoughLines() }
                }
            }
        } catch is EnoughLines {
            return
        }
        // The daemon never ends the stream itself.
        throw Failure.disconnected(reason: "trafficd closed it")
    }

    private struct EnoughLines: Error {}
}
