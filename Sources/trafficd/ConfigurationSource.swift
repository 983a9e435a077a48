import TrafficConfiguration

/// Where a daemon's configuration comes from: the defaults, then a file, then the command line. It can be read again.
struct ConfigurationSource: Sendable {
    struct Loaded {
        var configuration: Configuration
        /// What the log should say of it.
        var notes: [String]
    }

    /// `nil`: none is read.
    let file: ConfigurationFile?
    /// The user has named the file, so it must be there.
    private let isNamed: Bool
    private let commandLine: @Sendable (inout Configuration) -> Void

    /// - Parameter path: `nil`: the file that is usual, if it is there. `off`: none.
    init(_ path: String?, commandLine: @escaping @Sendable (inout Configuration) -> Void) {
        self.file = path == "off" ? nil : ConfigurationFile(path: path ?? ConfigurationFile.defaultPath)
        self.isNamed = path != nil
        self.commandLine = commandLine
    }

    /// Whether there is a file to read.
    var hasFile: Bool { self.file.map { self.isNamed || $0.exists } ?? false }

    /// - Throws: ``ConfigurationFault`` with everything that is wrong with the file, or with what it and the command line
    ///   say together.
    func load() throws(ConfigurationFault) -> Loaded {
        guard let file, self.hasFile else {
            var configuration = Configuration()
            self.commandLine(&configuration)
            return Loaded(configuration: configuration, notes: [])
        }
        let contents = try file.read()
        var configuration = contents.configuration
        self.commandLine(&configuration)
        if let conflict = configuration.conflict {
            let problem = ConfigurationProblem("with the options of trafficd: \(conflict.message)", at: nil)
            throw ConfigurationFault(path: file.path, problems: [problem])
        }
        if let rule = configuration.rulesWithoutHistory.first {
            let problem = ConfigurationProblem(
                "alerts: rule '\(rule)' needs history, and there is none: set state_directory",
                at: nil
            )
            throw ConfigurationFault(path: file.path, problems: [problem])
        }
        var notes = Self.overruled(contents, by: configuration)
        if configuration.stateDirectory == nil, contents.given.contains(where: { $0.hasPrefix("keep_history") }) {
            notes.append("there is no state_directory, so keep_history has no effect")
        }
        return Loaded(configuration: configuration, notes: notes.map { "\($0) in \(file.path)" })
    }

    /// What the file says in vain, a line for each setting.
    private static func overruled(_ contents: ConfigurationFile.Contents, by configuration: Configuration) -> [String] {
        Configuration.settings.all.compactMap { setting in
            guard contents.given.contains(setting.name),
                setting.show(contents.configuration) != setting.show(configuration)
            else { return nil }
            let (used, written) = (setting.summary(configuration), setting.summary(contents.configuration))
            return "the option for \(setting.name), \(used), wins over \(written)"
        }
    }
}
