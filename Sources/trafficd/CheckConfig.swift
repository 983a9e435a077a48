import ArgumentParser
import TrafficConfiguration

struct CheckConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Says what is wrong with a configuration file.",
        discussion: """
            Prints a line FILE:LINE:COLUMN: error: MESSAGE for everything that is wrong. Needs no root, and changes \
            nothing. Does not read the files that settings name.

            EXIT CODES
              0   the file is right, or there is none and none was named
              64  wrong usage
              78  the file is wrong, or can't be read

            EXAMPLES
              trafficd check-config
              trafficd check-config /srv/trafficd.yaml && sudo systemctl reload trafficd
            """
    )

    @Argument(
        help: ArgumentHelp(
            "The configuration file. (default: \(ConfigurationFile.defaultPath))",
            valueName: "file"
        ),
        completion: .file(extensions: ["yaml"])
    )
    var file: String?

    func run() throws {
        let file = ConfigurationFile(path: self.file ?? ConfigurationFile.defaultPath)
        guard self.file != nil || file.exists else {
            print("there is no \(file.path): trafficd uses its defaults")
            return
        }
        do throws(ConfigurationFault) {
            let contents = try file.read()
            let (given, known) = (contents.given.count, Configuration.settings.all.count)
            print("\(file.path): no errors, \(given) of \(known) settings given")
            if let conflict = contents.configuration.conflict {
                print("\(file.path): note: unless an option of trafficd says so: \(conflict.message)")
            }
        } catch {
            throw StartFailure(error)
        }
    }
}
