import CommandOptions
import Logging
import TrafficDocuments
import TrafficModel

extension Configuration {
    /// The keys of the configuration file. `--record-events` has none: it is for one bug report, and fills a disk if it
    /// stays.
    package static let settings = Settings<Configuration>(
        [
            Setting(["runtime_directory"], .atRestart, \.runtimeDirectory, .path),
            Setting(["state_directory"], .atRestart, \.stateDirectory, .optionalPath),
            Setting(["pin_directory"], .atRestart, \.pinDirectory, .pinPlace),
            Setting(["listen"], .atRestart, \.listen, .listen),
            Setting(["listen_token_file"], .atRestart, \.listenTokenFile, .optionalPath),
            Setting(["listen_admin_token_file"], .atRestart, \.listenAdminTokenFile, .optionalPath),
            Setting(["listen_certificate_file"], .atRestart, \.listenCertificateFile, .optionalPath),
            Setting(["listen_key_file"], .atRestart, \.listenKeyFile, .optionalPath),
            Setting(["listen_insecure"], .atRestart, \.listenInsecure, Self.yesOrNo),
            Setting(["allow_hosts"], .atRestart, \.allowedHosts, .names),
            Setting(["method"], .atRestart, \.method, .word(MethodOption.allCases.map { ($0.rawValue, $0.method) })),
            Setting(["wire"], .atRestart, \.writtenWire, .word(WireCounting.allCases.map { ($0.rawValue, $0) })),
            Setting(["keep_sys_admin"], .atRestart, \.keepSysAdmin, Self.yesOrNo),
            Setting(["interval"], .atReload, \.interval, .time(in: Self.intervals)),
            Setting(["keep_exited"], .atReload, \.keepExited, .time(in: Self.keepExitedTimes)),
        ]
            + HistoryLevel.allCases.map { level in
                Setting(["keep_history", level.rawValue], .atReload, \.historyRetention[level], .keeping(level))
            }
            + [
                Setting(["classes"], .atReload, \.classes, .classes),
                Setting(["alerts"], .atReload, \.alerts, .alerts),
                Setting(["push"], .atRestart, \.push, .push),
                Setting(["push_interval"], .atRestart, \.pushInterval, .time(in: Self.pushIntervals)),
                Setting(["log_level"], .atReload, \.logLevel, .word(Logger.Level.allCases.map { ($0.rawValue, $0) })),
            ]
    )

    private static let yesOrNo = ValueForm<Bool>.word([("false", false), ("true", true)])

    /// For the file, which can't take back what it says.
    private var writtenWire: WireCounting {
        get { self.wire }
        set { self.wantedWire = newValue }
    }
}

extension HistoryRetention {
    /// Seconds; `nil` for ever.
    fileprivate subscript(level: HistoryLevel) -> Int64? {
        get { self.seconds[level] ?? nil }
        set { self.keep(level, for: newValue) }
    }
}

extension ValueForm<String> {
    fileprivate static let path = Self(example: "/run/trafficd", show: { $0 }, parse: absolutePath)
}

extension ValueForm<String?> {
    static let optionalPath = Self(
        example: "/var/lib/trafficd",
        show: { $0 },
        parse: { (text) throws(ValueFault) in try absolutePath(text) }
    )
}

extension ValueForm<PinPlace> {
    fileprivate static let pinPlace = Self(
        example: "auto",
        show: { $0.defaultValueDescription },
        parse: { (text) throws(ValueFault) in
            switch text {
            case "off": return .off
            case "auto": return .auto
            default: return .directory(try absolutePath(text))
            }
        }
    )
}

extension ValueForm<SocketAddress?> {
    fileprivate static let listen = Self(
        example: "127.0.0.1:10419",
        show: { ListenOption(address: $0).defaultValueDescription },
        parse: { (text) throws(ValueFault) in
            if let option = ListenOption(argument: text) { return option.address }
            throw ValueFault(
                message:
                    "is '\(text)', and must be off, or an address and a port, such as 127.0.0.1:10419 or \"[::1]:10419\""
            )
        }
    )
}

extension ValueForm<Set<String>> {
    fileprivate static let names = Self(
        read: { (name, node) throws(ConfigurationProblems) in
            Set(try parsedItems(name, node, example: "traffic.example.net") { (text) throws(ValueFault) in text })
        },
        show: { $0.isEmpty ? nil : $0.sorted().joined(separator: ", ") }
    )
}

extension ValueForm<Int64?> {
    fileprivate static func keeping(_ level: HistoryLevel) -> Self {
        Self(
            example: "62d",
            show: { seconds in seconds.map { "\(TimeSpan(seconds: Double($0)))" } ?? "unlimited" },
            parse: { (text) throws(ValueFault) in
                if let keeping = HistoryKeeping(level, text) { return keeping.seconds }
                throw ValueFault(
                    message:
                        "is '\(text)', and must be a time of at least \(HistoryKeeping.shortest(of: level)), or unlimited",
                    suggestion: ["unlimited"].nearest(to: text)
                )
            }
        )
    }
}

extension ValueForm<AddressClasses> {
    fileprivate static let classes = Self(
        read: { (name, node) throws(ConfigurationProblems) in try AddressClasses(named: name, node) },
        show: { $0.isEmpty ? nil : $0.definitions.joined(separator: " ") }
    )
}

extension AddressClasses {
    /// `NAME: [CIDR, ...]` for each class.
    fileprivate init(named name: String, _ node: YAMLNode) throws(ConfigurationProblems) {
        let entries: [YAMLNode.Entry]
        switch node.content {
        case .mapping(let all): entries = all
        case .empty: entries = []
        case .text, .list:
            throw ConfigurationProblems(all: [
                ConfigurationProblem("\(name) must have lines NAME: [CIDR, ...]", at: node.position)
            ])
        }
        var (definitions, problems) = ([String](), [ConfigurationProblem]())
        for entry in entries {
            if !Self.isName(entry.key) {
                let fault = Fault(definition: entry.key, reason: .name(entry.key))
                problems.append(ConfigurationProblem("\(name): \(fault)", at: entry.position))
            }
            do throws(ConfigurationProblems) {
                definitions.append(try Self.definition("\(name).\(entry.key)", entry))
            } catch {
                problems += error.all
            }
        }
        guard problems.isEmpty else { throw ConfigurationProblems(all: problems) }
        do throws(Fault) {
            self = try AddressClasses(definitions)
        } catch {
            let index = definitions.firstIndex(of: error.definition) ?? 0
            throw ConfigurationProblems(all: [
                ConfigurationProblem("\(name).\(entries[index].key): \(error)", at: entries[index].position)
            ])
        }
    }

    private static func definition(
        _ name: String,
        _ entry: YAMLNode.Entry
    ) throws(ConfigurationProblems) -> String {
        let blocks = try parsedItems(name, entry.value, example: "10.0.0.0/8") { (text) throws(ValueFault) in
            do throws(AddressBlock.Fault) {
                return try AddressBlock(text)
            } catch {
                throw ValueFault(message: "has a wrong block: \(error)")
            }
        }
        guard !blocks.isEmpty else {
            throw ConfigurationProblems(all: [
                ConfigurationProblem("\(name) has no blocks, such as [10.0.0.0/8]", at: entry.position)
            ])
        }
        return entry.key + "=" + blocks.map(\.description).joined(separator: ",")
    }
}
