import TrafficModel

/// A key of a configuration file: what it sets, and how its value is read and shown.
package struct Setting<Target: Sendable>: Sendable {
    package enum Change: Sendable {
        /// A running daemon can take another value.
        case atReload
        case atRestart
    }

    /// With the section that it is in: `keep_history`, `minute`.
    package let path: [String]
    package let change: Change
    /// - Throws: Everything that is wrong with the value.
    let read: @Sendable (YAMLNode, inout Target) throws(ConfigurationProblems) -> Void
    /// The value as a text. `nil`: there is none, and a file can't say so except by not naming the key.
    package let show: @Sendable (Target) -> String?
    /// Takes the value of another target.
    package let copy: @Sendable (Target, inout Target) -> Void

    init<Value>(
        _ path: [String],
        _ change: Change,
        _ keyPath: any WritableKeyPath<Target, Value> & Sendable,
        _ form: ValueForm<Value>
    ) {
        (self.path, self.change) = (path, change)
        let name = path.joined(separator: ".")
        self.read = { (node, target) throws(ConfigurationProblems) in
            target[keyPath: keyPath] = try form.read(name, node)
        }
        self.show = { form.show($0[keyPath: keyPath]) }
        self.copy = { $1[keyPath: keyPath] = $0[keyPath: keyPath] }
    }

    package var name: String { self.path.joined(separator: ".") }

    /// The value as a log has it: not longer than a line.
    package func summary(_ target: Target) -> String {
        let shown = (self.show(target) ?? "none").printable
        return shown.count > 120 ? shown.prefix(120) + "…" : shown
    }
}

struct ConfigurationProblems: Error {
    var all: [ConfigurationProblem]
}

/// All keys of a file. The only list of them.
package struct Settings<Target: Sendable>: Sendable {
    package let all: [Setting<Target>]

    init(_ all: [Setting<Target>]) { self.all = all }

    /// What was read.
    struct Found {
        /// Where the keys are that the file has, by the settings' names.
        var places: [String: TextPosition] = [:]
        var problems: [ConfigurationProblem] = []
    }

    /// Reads what can be read, and finds everything that is wrong.
    func read(_ root: YAMLNode, into target: inout Target) -> Found {
        var found = Found()
        self.read(root, below: [], into: &target, &found)
        return found
    }

    private func read(_ node: YAMLNode, below path: [String], into target: inout Target, _ found: inout Found) {
        let entries: [YAMLNode.Entry]
        switch node.content {
        case .mapping(let all): entries = all
        // A section whose keys are all comments.
        case .empty: entries = []
        case .text, .list:
            let what = path.isEmpty ? "the file" : path.joined(separator: ".")
            found.problems.append(
                ConfigurationProblem(
                    "\(what) must have lines KEY: VALUE, with a blank after the colon",
                    at: node.position
                )
            )
            return
        }
        for entry in entries {
            let name = path + [entry.key]
            if let setting = self.all.first(where: { $0.path == name }) {
                found.places[setting.name] = entry.position
                do throws(ConfigurationProblems) {
                    try setting.read(entry.value, &target)
                } catch {
                    found.problems += error.all
                }
            } else if self.all.contains(where: { $0.path.starts(with: name) }) {
                self.read(entry.value, below: name, into: &target, &found)
            } else {
                found.problems.append(self.unknown(entry, below: path))
            }
        }
    }

    private func unknown(_ entry: YAMLNode.Entry, below path: [String]) -> ConfigurationProblem {
        let known = Set(self.all.filter { $0.path.starts(with: path) }.map { $0.path[path.count] }).sorted()
        let place = path.isEmpty ? "" : " in \(path.joined(separator: "."))"
        // A key of a section may be written without it.
        let nearest = known.nearest(to: entry.key) ?? self.all.first { $0.path.last == entry.key }?.name
        return ConfigurationProblem(
            "unknown key '\(entry.key)'\(place)" + (nearest == nil ? "; known: \(known.joined(separator: ", "))" : ""),
            at: entry.position,
            suggestion: nearest
        )
    }
}
