import ArgumentParser
import TrafficCapture
import TrafficModel

struct Unload: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Removes what trafficd run --pin-directory left in the kernel.",
        discussion: """
            Counting ends, and the next trafficd run begins at 0. A running trafficd must be stopped first. If nothing \
            is left there, this says so and succeeds.

            EXAMPLES
              sudo trafficd unload
              sudo trafficd unload --pin-directory /sys/fs/bpf/other
            """
    )

    @Option(help: ArgumentHelp("As it was given to trafficd run.", valueName: "dir"), completion: .directory)
    var pinDirectory = PinDirectory.usualPath

    func run() throws {
        do throws(PinError) {
            try PinDirectory(left: self.pinDirectory).removeDirectory()
        } catch .absent {
            // What was asked for is so. A script need not know whether a daemon left anything.
            print(PinError.absent(path: self.pinDirectory).description.printable)
        } catch {
            throw StartFailure(code: 1, message: "\(error)")
        }
    }
}
