import CommandOptions

/// How a value is written in a file.
struct ValueForm<Value>: Sendable {
    /// Gets the setting's name, for its messages.
    let read: @Sendable (String, YAMLNode) throws(ConfigurationProblems) -> Value
    let show: @Sendable (Value) -> String?

    init(
        read: @escaping @Sendable (String, YAMLNode) throws(ConfigurationProblems) -> Value,
        show: @escaping @Sendable (Value) -> String?
    ) {
        (self.read, self.show) = (read, show)
    }

    /// A value that is one word.
    ///
    /// - Parameters:
    ///   - example: For whoever writes a list or nothing.
    ///   - parse: Throws what is wrong with the word.
    init(
        example: String,
        show: @escaping @Sendable (Value) -> String?,
        parse: @escaping @Sendable (String) throws(ValueFault) -> Value
    ) {
        self.show = show
        self.read = { (name, node) throws(ConfigurationProblems) in
            try parsed(name, node, example: example, parse)
        }
    }
}

/// What is wrong with a word, after the setting's name.
struct ValueFault: Error {
    var message: String
    var suggestion: String?
}

/// Reads a node that must be a text.
func parsed<Value>(
    _ name: String,
    _ node: YAMLNode,
    example: String,
    _ parse: (String) throws(ValueFault) -> Value
) throws(ConfigurationProblems) -> Value {
    func problem(_ message: String, suggestion: String? = nil) -> ConfigurationProblems {
        ConfigurationProblems(all: [
            ConfigurationProblem("\(name) \(message)", at: node.position, suggestion: suggestion)
        ])
    }
    switch node.content {
    case .text(let text):
        do throws(ValueFault) {
            return try parse(text)
        } catch {
            throw problem(error.message, suggestion: error.suggestion)
        }
    case .empty:
        throw problem("has no value: write one, such as \(example), or make the line a comment")
    case .list, .mapping:
        throw problem("must be one value, such as \(example)")
    }
}

/// Reads all items of a list, and finds everything that is wrong with them.
func parsedItems<Item>(
    _ name: String,
    _ node: YAMLNode,
    example: String,
    _ parse: (String) throws(ValueFault) -> Item
) throws(ConfigurationProblems) -> [Item] {
    guard case .list(let nodes) = node.content else {
        if case .empty = node.content { return [] }
        var suggestion: String?
        if case .text(let text) = node.content { suggestion = "[\(text)]" }
        throw ConfigurationProblems(all: [
            ConfigurationProblem(
                "\(name) must be a list, such as [\(example)]",
                at: node.position,
                suggestion: suggestion
            )
        ])
    }
    var (items, problems) = ([Item](), [ConfigurationProblem]())
    for node in nodes {
        do throws(ConfigurationProblems) {
            items.append(try parsed(name, node, example: example, parse))
        } catch {
            problems += error.all
        }
    }
    guard problems.isEmpty else { throw ConfigurationProblems(all: problems) }
    return items
}

extension ValueForm {
    /// One of these words.
    static func word(_ words: [(word: String, value: Value)]) -> Self where Value: Equatable & Sendable {
        Self(
            example: words[0].word,
            show: { value in words.first { $0.value == value }?.word },
            parse: { (text) throws(ValueFault) in
                if let value = words.first(where: { $0.word == text })?.value { return value }
                let known = words.map(\.word)
                throw ValueFault(
                    message: "is '\(text)', and must be one of \(known.joined(separator: ", "))",
                    suggestion: known.nearest(to: text)
                )
            }
        )
    }
}

extension ValueForm<TimeSpan> {
    static func time(in range: ClosedRange<TimeSpan>) -> Self {
        Self(
            example: "\(range.lowerBound)",
            show: { "\($0)" },
            parse: { (text) throws(ValueFault) in
                guard let time = TimeSpan(argument: text) else {
                    throw ValueFault(message: "is '\(text)', and must be a time such as 500ms, 10s, 5m, 1h30m or 7d")
                }
                guard range.contains(time) else {
                    throw ValueFault(
                        message: "is \(text), and must be between \(range.lowerBound) and \(range.upperBound)"
                    )
                }
                return time
            }
        )
    }
}

/// Whatever the current directory is, a path leads to the same place.
func absolutePath(_ text: String) throws(ValueFault) -> String {
    guard text.hasPrefix("/") else { throw ValueFault(message: "is '\(text)', and must be a path that begins with /") }
    return text
}
