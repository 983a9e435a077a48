import TrafficModel

/// A place in a file, as editors count: from 1, the columns in characters.
package struct TextPosition: Hashable, Sendable, Comparable {
    package var line: Int
    package var column: Int

    package init(line: Int, column: Int) {
        (self.line, self.column) = (line, column)
    }

    package static func < (left: TextPosition, right: TextPosition) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// One thing that is wrong with a configuration file.
package struct ConfigurationProblem: Error, Hashable, Sendable {
    /// `nil`: it is about the file as a whole.
    package var position: TextPosition?
    package var message: String
    /// What was probably meant.
    package var suggestion: String?

    package init(_ message: String, at position: TextPosition?, suggestion: String? = nil) {
        (self.position, self.message, self.suggestion) = (position, message, suggestion)
    }
}

/// Why a configuration file can't be used: everything that was found, in the order of the file.
package struct ConfigurationFault: Error, Hashable, Sendable {
    package let path: String
    package let problems: [ConfigurationProblem]

    package init(path: String, problems: [ConfigurationProblem]) {
        self.path = path
        let first = TextPosition(line: 0, column: 0)
        self.problems = problems.sorted { ($0.position ?? first) < ($1.position ?? first) }
    }

    /// `FILE:LINE:COLUMN: error: MESSAGE`, as compilers write it, so that editors find the place.
    package var lines: [String] {
        self.problems.map { problem in
            let place = problem.position.map { ":\($0.line):\($0.column)" } ?? ""
            let suggestion = problem.suggestion.map { " (did you mean \($0)?)" } ?? ""
            return "\(self.path)\(place): error: \(problem.message)\(suggestion)".printable
        }
    }
}
