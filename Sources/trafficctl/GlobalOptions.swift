public import ArgumentParser
import CommandOptions
import Glibc
import TrafficModel
import TrafficQuery
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

    @Option(
        help: ArgumentHelp(
            "A daemon that listens on TCP, such as http://127.0.0.1:10419; also TRAFFICD_URL. Shows no sockets, exchanges, history, alerts or audit.",
            valueName: "url"
        )
    )
    var url: String?

    @Option(
        help: ArgumentHelp(
            "The token of a daemon at --url, in the first line of a file; with TRAFFICD_URL also TRAFFICD_API_TOKEN_FILE.",
            valueName: "file"
        ),
        completion: .file()
    )
    var apiTokenFile: String?

    @Option(
        help: ArgumentHelp(
            "For https: certificates in PEM of those who vouch for the daemon; with TRAFFICD_URL also TRAFFICD_API_CA_FILE. (default: those of the system)",
            valueName: "file"
        ),
        completion: .file()
    )
    var apiCaFile: String?

    func validate() throws {
        let isURLKnown = self.url != nil || self.runtimeDirectory == nil && environment("TRAFFICD_URL") != nil
        if !isURLKnown, self.apiTokenFile != nil || self.apiCaFile != nil {
            throw ValidationError("--api-token-file and --api-ca-file are for --url: control.sock asks for neither.")
        }
        guard let url else { return }
        if self.runtimeDirectory != nil { throw ValidationError("Give --url or --runtime-directory, not both.") }
        let parsed: DaemonURL
        do throws(DaemonURL.Fault) { parsed = try DaemonURL(url) } catch { throw ValidationError("--url: \(error)") }
        guard parsed.isEncrypted || self.apiCaFile == nil else { throw ValidationError("--api-ca-file is for https.") }
    }

    /// An option wins over both variables, and TRAFFICD_URL wins over the other one.
    ///
    /// - Throws: `Failure.badURL` where the variable has no URL of a daemon. Commands that need no daemon do not look.
    var client: ControlClient {
        get throws(Failure) {
            if let directory = self.runtimeDirectory { return Self.client(in: directory) }
            if let text = self.url ?? environment("TRAFFICD_URL") {
                let address: DaemonAddress
                do throws(DaemonURL.Fault) {
                    address = .network(try DaemonURL(text))
                } catch {
                    throw .badURL("TRAFFICD_URL: \(error)")
                }
                // The variables are for the daemon of that variable. Another one must not get its token.
                let isFromVariable = self.url == nil
                let credentials = try Credentials(
                    tokenFile: self.apiTokenFile ?? (isFromVariable ? environment("TRAFFICD_API_TOKEN_FILE") : nil),
                    authoritiesFile: self.apiCaFile ?? (isFromVariable ? environment("TRAFFICD_API_CA_FILE") : nil)
                )
                return ControlClient(address: address, credentials: credentials)
            }
            return Self.client(in: environment("TRAFFICD_RUNTIME_DIRECTORY") ?? "/run/trafficd")
        }
    }

    private static func client(in directory: String) -> ControlClient {
        ControlClient(address: .socket(path: directory + "/control.sock"))
    }
}

/// Which rows.
struct FilterOptions: ParsableArguments {
    @Option(
        name: .shortAndLong,
        // A filter may begin with the minus that negates a term.
        parsing: .unconditional,
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
    @Option(name: [.customShort("n"), .long], help: ArgumentHelp("At most so many rows.", valueName: "n"))
    var limit: Int?

    func validate() throws {
        if let limit, limit < 0 { throw ValidationError("--limit must not be negative.") }
    }
}

struct ColorOptions: ParsableArguments {
    enum When: String, CaseIterable, ExpressibleByArgument {
        case auto, always, never
    }

    @Option(help: "auto: on a terminal, unless NO_COLOR is set.")
    var color = When.auto

    /// `auto` follows https://no-color.org.
    func isWanted(_ stream: StandardStream) -> Bool {
        switch self.color {
        case .auto: stream.isTerminal && environment("NO_COLOR") == nil
        case .always: true
        case .never: false
        }
    }
}

/// How often.
struct IntervalOption: ParsableArguments {
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Time between two snapshots, such as 10s, 500ms or 5m.", valueName: "time")
    )
    var interval = TimeSpan(seconds: 1)

    func validate() throws {
        try self.interval.check("--interval", within: TimeSpan(seconds: 0.1)...TimeSpan(seconds: 3_600))
    }
}

struct UnitOptions: ParsableArguments {
    @Flag(help: "Bits instead of bytes.")
    var bits = false

    var units: Units { self.bits ? .bits : .bytes }
}

extension SortKey: ExpressibleByArgument {
    /// Also takes the words of filters.
    public init?(argument: String) {
        switch argument {
        case "rx": self = .received
        case "tx": self = .sent
        case "rxrate": self = .receivedRate
        case "txrate": self = .sentRate
        default: self.init(rawValue: argument)
        }
    }
}
extension Grouping: ExpressibleByArgument {}
extension EndpointSortKey: ExpressibleByArgument {
    /// Also takes the words of filters.
    public init?(argument: String) {
        switch argument {
        case "rx": self = .received
        case "tx": self = .sent
        default: self.init(rawValue: argument)
        }
    }
}
extension EndpointGrouping: ExpressibleByArgument {}

/// - Returns: `nil` for a variable that is not set or is empty.
func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
}
