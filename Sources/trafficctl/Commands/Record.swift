import ArgumentParser
import CommandOptions
import Glibc
import TrafficModel
import TrafficQuery
import TrafficRecording
import TrafficView
import UnixSignals

struct Record: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes what the daemon counts to a file, for trafficctl replay and for bug reports.",
        discussion: """
            Records until --for is over or Ctrl-C is pressed. --for counts from the first snapshot, and is over if \
            none comes within two minutes. If the daemon goes away later, record waits for it and goes on. \
            The file has what you may see: as root and in the group trafficd everything, otherwise your own processes. Over TCP (--url) it has no sockets.

            Names, addresses and users are replaced by pseudonyms, the same for the same within the file, so that it can \
            be sent to strangers. Numbers, times, ports, and the version of the kernel stay; docs/cli.md lists what \
            becomes of each field. --no-redact keeps everything.

            The file is Zstandard with lines of JSON: zstdcat FILE | jq. A file that was cut replays up to the cut.

            EXAMPLES
              trafficctl record trouble.rec --for 5m
              sudo trafficctl record night.rec --no-redact --interval 10s --max-size 500M
              trafficctl record - --for 1m | ssh desk 'cat >trouble.rec'
              trafficctl replay trouble.rec
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var interval: IntervalOption

    @Argument(help: "The file to make; - is standard output.", completion: .file())
    var file: String

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Stop this long after the first snapshot, such as 5m. (default: at Ctrl-C)",
            valueName: "time"
        )
    )
    var time: TimeSpan?

    @Option(help: ArgumentHelp("Stop when the file has this size, such as 500M.", valueName: "bytes"))
    var maxSize = FileSize(bytes: 1_000_000_000)

    @Flag(inversion: .prefixedNo, help: "Pseudonyms in place of names and addresses.")
    var redact = true

    @Flag(help: "Replace the file if it exists.")
    var force = false

    struct FileSize: ExpressibleByArgument, CustomStringConvertible {
        var bytes: Int

        init(bytes: Int) { self.bytes = bytes }

        init?(argument: String) {
            guard let number = Amount.number(argument, unit: "b"), 1..<1e18 ~= number else { return nil }
            self.bytes = Int(number)
        }

        var description: String { Units.bytes.text(UInt64(self.bytes)) }
        var defaultValueDescription: String { "1G" }
    }

    func validate() throws {
        try self.time?.check("--for", within: TimeSpan(seconds: 0.1)...TimeSpan(seconds: 366 * 86_400))
        if self.file == "-", StandardStream.output.isTerminal {
            throw ValidationError("standard output is a terminal: give a file, or a pipe for -")
        }
    }

    func run() async throws {
        let output = try RecordingFile(path: self.file, replaces: self.force)
        let command = self
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
        let time = self.time
        let (begun, begin) = AsyncStream.makeStream(of: Never.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let recorder = try Recorder(
                    client: try command.connection.client,
                    output: output,
                    interval: command.interval.interval,
                    filter: command.filtering.filter,
                    pseudonyms: command.redact ? Pseudonyms() : nil,
                    maxSize: command.maxSize.bytes,
                    begin: { begin.finish() }
                )
                try await recorder.run()
            }
            group.addTask {
                for await _ in signals { break }
            }
            if let time {
                group.addTask {
                    guard await Self.hasBegun(begun) else { return }
                    try? await Task.sleep(for: time.duration)
                }
            }
            defer { group.cancelAll() }
            // Whichever comes first ends it. The recorder then ends its file, or says why it can't.
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    /// Waits for the first snapshot. It is there after a tenth of a second, or later if the machine is busy. A daemon
    /// that sends nothing must not keep the command forever, so this gives up after two minutes.
    private static func hasBegun(_ begun: AsyncStream<Never>) async -> Bool {
        await withTaskGroup { group in
            group.addTask {
                for await _ in begun {}
                return !Task.isCancelled
            }
            group.addTask {
                try? await Task.sleep(for: .seconds(120))
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }
}
