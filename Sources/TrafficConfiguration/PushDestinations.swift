import FoundationEssentials
import TrafficDocuments
import TrafficModel

extension ValueForm<[PushDestination]> {
    static let push = Self(
        read: { (name, node) throws(ConfigurationProblems) in try PushDestinations.read(name, node) },
        show: { $0.isEmpty ? nil : $0.map(\.name).joined(separator: " ") }
    )
}

/// The section of receivers: a list of `{url: "http://localhost:4318/v1/metrics", format: otlp}`.
enum PushDestinations {
    /// Each has a cursor, a task and connections of its own.
    static let most = 10

    private static let example = "{url: \"http://localhost:4318/v1/metrics\"}"

    static func read(_ name: String, _ node: YAMLNode) throws(ConfigurationProblems) -> [PushDestination] {
        guard case .list(let items) = node.content else {
            if case .empty = node.content { return [] }
            throw self.problem("\(name) must be a list of receivers, such as [\(Self.example)]", node)
        }
        guard items.count <= Self.most else {
            throw self.problem("\(name) has \(items.count) receivers, and may have \(Self.most)", node)
        }
        var (destinations, problems) = ([PushDestination](), [ConfigurationProblem]())
        for item in items {
            do throws(ConfigurationProblems) {
                let destination = try Self.destination(name, item)
                guard !destinations.contains(where: { $0.url == destination.url }) else {
                    throw self.problem("\(name) has this url already", item)
                }
                destinations.append(destination)
            } catch {
                problems += error.all
            }
        }
        guard problems.isEmpty else { throw ConfigurationProblems(all: problems) }
        return destinations
    }

    private static func destination(
        _ name: String,
        _ node: YAMLNode
    ) throws(ConfigurationProblems) -> PushDestination {
        guard case .mapping = node.content else {
            throw Self.problem("a receiver of \(name) must be {KEY: VALUE, ...}, such as \(Self.example)", node)
        }
        var destination = PushDestination(url: "")
        let found = Self.keys.read(node, into: &destination)
        guard found.problems.isEmpty else { throw ConfigurationProblems(all: found.problems) }
        guard !destination.url.isEmpty else { throw Self.problem("a receiver of \(name) has no url", node) }
        let url = URL(string: destination.url)
        let host = url?.host() ?? ""
        guard url?.scheme?.lowercased() != "https" || BuildTraits.hasTLS else {
            throw Self.problem("a receiver of \(name) has https://: \(BuildTraits.noTLS)", node)
        }
        let isHere = host == "localhost" || InternetAddress(host)?.isLoopback == true
        guard destination.headersFile == nil || url?.scheme?.lowercased() == "https" || isHere else {
            throw Self.problem(
                "headers_file of a receiver of \(name) needs https://, or whoever is on the way reads it",
                node
            )
        }
        return destination
    }

    private static let keys = Settings<PushDestination>([
        Setting(["url"], .atRestart, \.url, .url),
        Setting(
            ["format"],
            .atRestart,
            \.format,
            .word(PushDestination.Format.allCases.map { ($0.rawValue, $0) })
        ),
        Setting(
            ["compression"],
            .atRestart,
            \.compression,
            .word(PushDestination.Compression.allCases.map { ($0.rawValue, $0) })
        ),
        Setting(["headers_file"], .atRestart, \.headersFile, .optionalPath),
        Setting(["ca_file"], .atRestart, \.certificateAuthorityFile, .optionalPath),
    ])

    private static func problem(_ text: String, _ node: YAMLNode) -> ConfigurationProblems {
        ConfigurationProblems(all: [ConfigurationProblem(text, at: node.position)])
    }
}

extension ValueForm<String> {
    fileprivate static let url = Self(
        example: "http://localhost:4318/v1/metrics",
        show: { $0 },
        parse: { (text) throws(ValueFault) in
            let isPlain = text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
            guard isPlain, let url = URL(string: text), ["http", "https"].contains(url.scheme?.lowercased()),
                url.host()?.isEmpty == false, (1...65_535).contains(url.port ?? 80), url.path().hasPrefix("/")
            else {
                throw ValueFault(
                    message:
                        "is '\(text)', and must be an address with its path, such as http://localhost:4318/v1/metrics"
                )
            }
            return text
        }
    )
}
