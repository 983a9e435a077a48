import TrafficPush

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
            let scheme = ["http://", "https://"].first { text.lowercased().hasPrefix($0) }
            let isPlain = text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
            guard let scheme, isPlain,
                text.dropFirst(scheme.count).prefix(while: { $0 != "/" }).contains(where: \.isLetter)
                    || text.dropFirst(scheme.count).first?.isNumber == true || text.dropFirst(scheme.count).first == "["
            else {
                throw ValueFault(
                    message:
                        "is '\(text)', and must begin with http:// or https:// and a host, with the whole path, such as "
                        + "http://localhost:4318/v1/metrics"
                )
            }
            return text
        }
    )
}
