import ArgumentParser
import Glibc
import TrafficModel
import TrafficRecording
import TrafficView

@main
struct Trafficctl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficctl",
        abstract: "Every byte that every process moves over the network.",
        discussion: """
            Asks the daemon trafficd, which counts in the kernel, over its control socket, or over TCP with --url.

            EXAMPLES
              trafficctl top                               what moves now, full screen
              trafficctl top --once --sort total           one picture of it, as text
              trafficctl processes --filter 'user:www-data rx>1M'
              trafficctl sockets --filter port:443 --sort received --limit 20
              trafficctl endpoints --sort received         which endpoint eats the traffic
              trafficctl history --since month             who moved how much since the 1st
              trafficctl export --format csv --output traffic.csv
              trafficctl watch --interval 10s | jq .totals
              trafficctl record trouble.rec --for 5m       for a bug report, without names
              trafficctl replay trouble.rec                top on a recording
              trafficctl alerts                            which rules something breaks now
              trafficctl audit                             whether any byte is missing
              trafficctl doctor                            what this machine can't see

            EXIT CODES
              0   done
              1   failed
              64  wrong usage
              69  trafficd is not running, or does not listen there
              77  no permission
              78  the configuration file of replay --to alerts is wrong
              For audit and alerts --check, see their help.
            """,
        version: TrafficVersion.current,
        subcommands: [
            Top.self, Processes.self, Sockets.self, Endpoints.self, Exchanges.self, History.self, Export.self,
            Watch.self, Record.self, ReplayCommand.self, Alerts.self, Audit.self, Doctor.self,
        ]
    )

    // Also here, so that `trafficctl --runtime-directory X top` works like `trafficctl top --runtime-directory X`.
    @OptionGroup var connection: ConnectionOptions

    static func main() async {
        // With SIGPIPE ignored, write(2) returns an error where the reader is gone, and its caller handles the error.
        signal(SIGPIPE, SIG_IGN)
        do {
            var command = try self.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                // Top is not asynchronous: it owns the main thread.
                try command.run()
            }
        } catch let failure as Failure {
            self.exit(failure, failure.exitCode)
        } catch let error as RecordingError {
            self.exit(.recording(error), Failure.recording(error).exitCode)
        } catch let trouble as Trouble {
            self.exit(trouble.failure, Trouble.exitCode)
        } catch is OutputClosed {
            // The reader, such as head(1), has read enough. That is no failure.
            Glibc.exit(0)
        } catch {
            self.exit(withError: error)
        }
    }

    private static func exit(_ failure: Failure, _ code: Int32) -> Never {
        // Lines of a compiler's form, which are printable already.
        let isWhole = if case .configuration = failure { true } else { false }
        let line = isWhole ? failure.description : Typeface.ascii.printable("trafficctl: \(failure)")
        try? StandardStream.error.write(line + "\n")
        Glibc.exit(code)
    }
}
