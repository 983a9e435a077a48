import ArgumentParser
import TrafficCapture

struct Unload: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Removes what trafficd run --pin-directory left in the kernel.",
        discussion: """
            Counting ends, and the next trafficd run begins at 0. A running trafficd must be stopped first.

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
        } catch {
            throw StartFailure(code: 1, message: "\(error)")
        }
    }
}
