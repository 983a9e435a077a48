public import ArgumentParser
import Glibc
import TrafficModel
public import TrafficView

/// Where the daemon is.
struct ConnectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Directory with the daemon's control.sock; also TRAFFICD_RUNTIME_DIRECTORY. (default: /run/trafficd)",
            valueName: "dir"
        ),
        completion: .directory
    )
    var runtimeDirectory: String?

    var client: ControlClient {
        let directory = self.runtimeDirectory ?? environment("TRAFFICD_RUNTIME_DIRECTORY") ?? "/run/trafficd"
        return ControlClient(socketPath: directory + "/control.sock")
    }
}

/// Which rows.
struct FilterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Only what matches all terms, such as 'process:nginx port:80,443 rx>1M'; -term excludes.",
            valueName: "terms"
        )
    )
    var filter: String?

    func validate() throws {
        guard let filter else { return }
        do throws(FilterError) {
            _ = try Filter(filter)
        } catch {
            throw ValidationError("--filter: \(error)")
        }
    }
}

/// How many rows.
struct LimitOption: ParsableArguments {
    @Option(help: ArgumentHelp("At most so many rows.", valueName: "n"))
    var limit: Int?

    func validate() throws {
        if let limit, limit < 0 { throw ValidationError("--limit must not be negative.") }
    }
}

struct ColorOptions: ParsableArguments {
    @Flag(help: "No colours; also NO_COLOR.")
    var noColor = false

    /// Whether there may be colours where the output is a terminal (https://no-color.org).
    var isWanted: Bool { !self.noColor && environment("NO_COLOR") == nil }
}

struct UnitOptions: ParsableArguments {
    @Flag(help: "Bits instead of bytes.")
    var bits = false

    var units: Units { self.bits ? .bits : .bytes }
}

extension SortKey: ExpressibleByArgument {}
extension Grouping: ExpressibleByArgument {}
extension EndpointSortKey: ExpressibleByArgument {}
extension EndpointGrouping: ExpressibleByArgument {}

/// An interval between snapshots.
struct Interval: ExpressibleByArgument, CustomStringConvertible {
    /// 0.1 to 3600.
    var seconds: Double

    init(seconds: Double) {
        self.seconds = seconds
    }

    /// Seconds, with `s` or without, or milliseconds with `ms`.
    init?(argument: String) {
        let number =
            argument.hasSuffix("ms")
            ? argument.dropLast(2) : argument.hasSuffix("s") ? argument.dropLast() : argument[...]
        guard let value = Double(number) else { return nil }
        self.seconds = argument.hasSuffix("ms") ? value / 1000 : value
        guard (0.1...3600).contains(self.seconds) else { return nil }
    }

    var description: String { self.seconds.formatted }
    var defaultValueDescription: String { self.description }
}

extension Double {
    /// Without a fraction where there is none.
    fileprivate var formatted: String { self == self.rounded() ? String(Int(self)) : String(self) }
}

/// - Returns: `nil` for a variable that is not set, or empty.
func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
}
