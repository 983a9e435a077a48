import CYAML

/// Reads a text as one YAML document of lists, mappings and text, by libyaml.
///
/// Anchors, aliases, tags and further documents are refused: no setting needs them, and an alias can make a short file
/// long.
package struct YAMLReader {
    private let events: YAMLEvents
    /// What is wrong although the text is YAML.
    private var problems: [ConfigurationProblem] = []
    /// Lists and mappings in each other. No setting needs more.
    static let deepest = 16

    /// - Returns: The document, and what is wrong in it; an empty mapping if the text has only comments.
    /// - Throws: ``ConfigurationProblem`` where the text is not YAML, or is YAML that is refused.
    package static func read(
        _ text: [UInt8]
    ) throws(ConfigurationProblem) -> (root: YAMLNode, problems: [ConfigurationProblem]) {
        var reader = YAMLReader(events: try YAMLEvents(text))
        let root = try reader.document()
        return (root, reader.problems)
    }

    private mutating func document() throws(ConfigurationProblem) -> YAMLNode {
        var event = try self.events.next()
        guard event.kind == .documentStart else {
            return YAMLNode(content: .mapping([]), position: TextPosition(line: 1, column: 1))
        }
        let root = try self.node(from: self.events.next(), depth: 0)
        event = try self.events.next()
        if event.kind == .documentEnd { event = try self.events.next() }
        guard event.kind == .streamEnd else {
            throw ConfigurationProblem("a second document begins here: the file has one", at: event.position)
        }
        return root
    }

    private mutating func node(from event: YAMLEvents.Event, depth: Int) throws(ConfigurationProblem) -> YAMLNode {
        guard depth <= Self.deepest else {
            throw ConfigurationProblem("lists and mappings are nested too deeply", at: event.position)
        }
        switch event.kind {
        case .text(let text, let isPlain):
            return YAMLNode(content: text.isEmpty && isPlain ? .empty : .text(text), position: event.position)
        case .listStart:
            var nodes: [YAMLNode] = []
            while true {
                let next = try self.events.next()
                if next.kind == .listEnd { return YAMLNode(content: .list(nodes), position: event.position) }
                nodes.append(try self.node(from: next, depth: depth + 1))
            }
        case .mappingStart:
            return YAMLNode(content: .mapping(try self.entries(depth: depth + 1)), position: event.position)
        case .documentStart, .documentEnd, .listEnd, .mappingEnd, .streamEnd:
            throw ConfigurationProblem("not YAML", at: event.position)
        }
    }

    private mutating func entries(depth: Int) throws(ConfigurationProblem) -> [YAMLNode.Entry] {
        var entries: [YAMLNode.Entry] = []
        var lines: [String: Int] = [:]
        while true {
            let event = try self.events.next()
            if event.kind == .mappingEnd { return entries }
            let key = try self.node(from: event, depth: depth)
            let value = try self.node(from: self.events.next(), depth: depth)
            guard case .text(let name) = key.content else {
                self.problems.append(ConfigurationProblem("a key must be a word", at: key.position))
                continue
            }
            if let line = lines[name] {
                self.problems.append(
                    ConfigurationProblem("'\(name)' is in line \(line) already: each key comes once", at: key.position)
                )
                continue
            }
            lines[name] = key.position.line
            entries.append(YAMLNode.Entry(key: name, position: key.position, value: value))
        }
    }
}
