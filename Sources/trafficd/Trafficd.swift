import ArgumentParser
import Glibc
import TrafficModel

@main
struct Trafficd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficd",
        abstract: "Counts the bytes that every process moves over the network.",
        discussion: """
            The daemon counts in the kernel and answers on a Unix socket. trafficctl shows what it counts.

            EXAMPLES
              sudo trafficd run
              sudo trafficd check
              sudo trafficd run --runtime-directory /tmp/t &  sudo trafficctl --runtime-directory /tmp/t top
            """,
        version: TrafficVersion.current,
        subcommands: [Run.self, Check.self, CheckConfig.self, Unload.self]
    )

    static func main() async {
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let failure as StartFailure {
            let line = Array("\(failure)\n".utf8)
            write(STDERR_FILENO, line, line.count)
            exit(withError: ExitCode(failure.code))
        } catch {
            exit(withError: error)
        }
    }
}
