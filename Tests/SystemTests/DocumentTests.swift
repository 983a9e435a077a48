import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficAlerts
import TrafficAudit
import TrafficCapture
import TrafficConfiguration
import TrafficDocuments
import TrafficExport
import TrafficHistory
import TrafficLedger
import TrafficLimits
import TrafficModel

/// README, docs and similar files: everything that they name exists, and every command in them works.
enum Documents {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The texts, by path below the root.
    static let all: [String: String] = {
        let folder = Documents.root.appending(path: "docs").path
        let docs = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).map { "docs/\($0)" }
        let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"] + docs
        return Dictionary(
            uniqueKeysWithValues: names.filter { $0.hasSuffix(".md") }.compactMap { name in
                (try? String(contentsOf: Documents.root.appending(path: name), encoding: .utf8)).map { (name, $0) }
            }
        )
    }()

    /// Blocks that begin with three backticks and this word.
    static func blocks(_ language: String, in text: String) -> [String] {
        var blocks: [String] = []
        var lines: [Substring]?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line == "```" + language, lines == nil {
                lines = []
            } else if line == "```", let block = lines {
                blocks.append(block.joined(separator: "\n"))
                lines = nil
            } else {
                lines?.append(line)
            }
        }
        return blocks
    }

    /// The commands of a block. A command that continues over several lines is one command.
    static func commands(_ block: String) -> [String] {
        block.replacing("\\\n", with: " ").split(separator: "\n").map {
            // Two blanks precede a comment at the end of a line.
            String($0.prefix(upTo: $0.range(of: "  #")?.lowerBound ?? $0.endIndex)).trimmingCharacters(in: .whitespaces)
        }.filter { !$0.isEmpty && !$0.hasPrefix("#") }
    }

    /// The anchors of the headings, as hosts of repositories make them.
    static func anchors(of text: String) -> Set<String> {
        Set(
            text.split(separator: "\n").filter { $0.hasPrefix("#") }.map { line in
                let title = line.drop { $0 == "#" }.dropFirst().lowercased()
                return String(
                    title.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }.map { $0 == " " ? "-" : $0 }
                )
            }
        )
    }
}

@Suite("Documents")
struct DocumentTests {
    @Test("the usual documents exist, and the README is short")
    func there() throws {
        #expect(Documents.all.count >= 17)
        let readme = try #require(Documents.all["README.md"])
        #expect(readme.split(whereSeparator: \.isWhitespace).count < 1_000)
    }

    @Test("the tables of limits have the numbers of the code")
    func limits() throws {
        func text(_ number: UInt64?) -> String {
            number.map { $0.formatted(.number.locale(Locale(identifier: "en_US"))) } ?? ""
        }
        let security = Set(try #require(Documents.all["docs/security.md"]).components(separatedBy: "\n"))
        // In parentheses: the value of `kprobe`.
        let kprobe = CaptureLimits.table(.kprobe)
        for (limit, other) in zip(CaptureLimits.table(.tracepoint), kprobe) {
            #expect(limit.of == other.of && limit.beyond == other.beyond)
            let amounts = [(limit.user, other.user), (limit.all, other.all)].map { most, ofKprobe in
                most == ofKprobe ? text(most) : "\(text(most)) (\(text(ofKprobe)))"
            }
            let row = "| \(limit.of) | \(amounts.joined(separator: " | ")) | \(limit.beyond) |"
                .replacing("  ", with: " ")
            #expect(security.contains(row), "\(row)")
        }
        for limit in Ledger.Retention().table + History.limits + AlertBook.limits + AlertBacklog.limits
            + SeriesLimits.table
        {
            let row = "| \(limit.of) | \(text(limit.user)) | \(text(limit.all)) | \(limit.beyond) |"
                .replacing("  ", with: " ")
            #expect(security.contains(row), "\(row)")
        }
        let path = Documents.root.appending(path: "Sources/TrafficReport/TrafficReport.docc/Format.md")
        let format = Set(try String(contentsOf: path, encoding: .utf8).components(separatedBy: "\n"))
        for limit in ReportLimits.table {
            let amounts = [limit.process, limit.user, limit.all].map(text).joined(separator: " | ")
            let row = "| \(limit.of) | \(amounts) | \(limit.beyond) |".replacing("  ", with: " ")
            #expect(format.contains(row), "\(row)")
        }
    }

    @Test("the table of settings has the keys, the defaults and the changes of the code")
    func settings() throws {
        let text = try #require(Documents.all["docs/configuration.md"])
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| `") }
            .map { $0.split(separator: " | ").map { $0.trimmingCharacters(in: ["|", " ", "`"]) } }
        let wanted = Configuration.settings.all.map { setting in
            let change = setting.change == .atReload ? "at a reload" : "at a restart"
            return [setting.name, setting.show(Configuration()) ?? "none", change]
        }
        #expect(rows.map { [$0[0], $0[2], $0[3]] } == wanted)
    }

    @Test("every configuration file in the documents is right, and each error that they show is the program's")
    func configurations() async throws {
        let text = try #require(Documents.all["docs/configuration.md"])
        let file = temporaryPath("td", ".yaml")
        defer { unlink(file) }
        func check(_ text: String) async throws -> String {
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            chmod(file, 0o600)
            return try await Program.run(Machine.programs.daemon, ["check-config", file]).error
        }
        let blocks = Documents.blocks("yaml", in: text)
        #expect(!blocks.isEmpty)
        for block in blocks { #expect(try await check(block) == "") }
        let errors = try await check("interval: 2h\n\n\nkeep-exited: 1h\n")
        #expect(text.contains(errors.replacing(file, with: "/etc/trafficd.yaml")), "\(errors)")
    }

    @Test("links lead to files and headings that exist", arguments: Documents.all.keys.sorted())
    func links(document: String) throws {
        let text = try #require(Documents.all[document])
        for match in text.matches(of: /\]\(([^)\s]+)\)/) {
            let target = String(match.1)
            if target.hasPrefix("https://") { continue }
            let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let folder = Documents.root.appending(path: document).deletingLastPathComponent()
            let file = parts[0].isEmpty ? Documents.root.appending(path: document) : folder.appending(path: parts[0])
            let content = try? String(contentsOf: file.standardizedFileURL, encoding: .utf8)
            #expect(content != nil || FileManager.default.fileExists(atPath: file.path), "\(document): \(target)")
            guard parts.count > 1, let content else { continue }
            #expect(Documents.anchors(of: content).contains(parts[1].lowercased()), "\(document): \(target)")
        }
    }

    @Test("the README links to every document of docs")
    func reached() throws {
        let readme = try #require(Documents.all["README.md"])
        for name in Documents.all.keys where name != "README.md" && name != "CHANGELOG.md" && name != "SECURITY.md" {
            #expect(readme.contains("(\(name))"), "\(name)")
        }
    }

    @Test("every named option exists")
    func options() async throws {
        var known: Set<String> = []
        func learn(_ text: String) { known.formUnion(text.matches(of: /--[a-z][a-z-]*/).map { String($0.output) }) }
        for program in [Machine.programs.client, Machine.programs.daemon] {
            learn(
                try await Tool.run(program.path, ["--experimental-dump-help"]).output.replacing(
                    /"name" : "/,
                    with: "\"name\" : \"--"
                )
            )
        }
        for script in ["try", "test", "accuracy", "kernel-matrix", "bench", "package"] {
            learn(try String(contentsOf: Documents.root.appending(path: "scripts/\(script)"), encoding: .utf8))
        }
        // Options of other programs, and options that a release has renamed.
        let foreign: Set = [
            "--strict", "--unix-socket", "--privileged", "--pid", "--net", "--static-swift-stdlib", "--remove",
            "--disable-default-traits", "--icf",
            "--rung", "--no-color", "--now",
            "--seconds",
        ]
        var named = 0
        for (name, text) in Documents.all {
            for match in text.matches(of: /(?:^|[\s`(])(--[a-z][a-z-]*)/) where !foreign.contains(String(match.1)) {
                #expect(known.contains(String(match.1)), "\(name): \(match.1)")
                named += 1
            }
        }
        #expect(named > 50)
    }

    @Test("every named field exists")
    func fields() throws {
        let schemas = [
            Snapshot.jsonSchema, AuditReport.jsonSchema, ExchangeReport.jsonSchema, DoctorReport.jsonSchema,
            HistoryReport.jsonSchema, MonthReport.jsonSchema, AlertReport.jsonSchema,
            AlertNotice.jsonSchema,
        ].map { String(decoding: $0, as: UTF8.self) }.joined()
        let sources = try FileManager.default.contentsOfDirectory(atPath: Documents.root.appending(path: "bpf").path)
            .filter { $0.hasSuffix(".h") || $0.hasSuffix(".c") }
            .map { try String(contentsOf: Documents.root.appending(path: "bpf/\($0)"), encoding: .utf8) }.joined()
        // Names of the kernel and of peers, except functions that our programs hook.
        let foreign: Set = [
            "sock_diag", "tcp_sock", "http_route", "url_template", "skb_consume_udp", "inet_sendmsg", "inet_recvmsg",
            "io_uring",
            "bytes_sent", "request_length", "kprobe_events", "wmem_max", "wmem_default",
            // Of receivers of metrics, and of the lines that they get: tests of their own read these.
            "headers_file", "ca_file", "start_time", "promote_resource_attributes",
        ]
        let settings = Set(Configuration.settings.all.map { $0.path[0] })
        let metrics = try #require(Documents.all["docs/metrics.md"])
        var named = 0
        // A test of its own has the names of metrics.
        for (name, text) in Documents.all where name != "docs/metrics.md" {
            for match in text.matches(of: /`(?:[a-z]+\.)*([a-z]+(?:_[a-z0-9]+)+)`/)
            where !metrics.contains("`\(match.1)`") && !foreign.contains(String(match.1))
                && !settings.contains(String(match.1))
            {
                let field = String(match.1)
                named += 1
                // Macros of bpf/kprobe.bpf.h make two programs of each function.
                let function = field.replacing(/_(called|returned)$/, with: "")
                let isMade = ["COUNT_SENDS", "COUNT_RECEIVES"].contains { sources.contains("\($0)(\(function))") }
                #expect(schemas.contains("\"\(field)\"") || sources.contains(field) || isMade, "\(name): \(field)")
            }
        }
        #expect(named > 30)
    }
}

extension SystemTests {
    @Suite(.needsBPF)
    struct DocumentedCommandTests {
        /// The default directory, because the documents start a daemon without options.
        static let directory = "/run/trafficd"

        @Test(
            "every command works as written, beside a daemon with default options",
            .needs("jq", "curl", "script", "timeout")
        )
        func commands() async throws {
            guard !FileManager.default.fileExists(atPath: Self.directory + "/control.sock") else {
                try Test.cancel("another trafficd has \(Self.directory)")
            }
            let work = URL(filePath: temporaryPath("td"))
            try FileManager.default.createDirectory(at: work, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: work) }
            // What a reader of the documents has.
            let rules = work.appending(path: "new-rules.yaml")
            try Data("alerts: [{name: backup, rate: 1M, for: 1m}]\n".utf8).write(to: rules)
            chmod(rules.path, 0o644)
            // The test runs as root, so sudo has nothing to do.
            let sudo = work.appending(path: "sudo")
            try Data("#!/bin/sh\nexec \"$@\"\n".utf8).write(to: sudo)
            chmod(sudo.path, 0o755)
            let path =
                "\(work.path):\(Machine.programs.directory.path):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
            let daemon = try Tool.start(
                [Machine.programs.daemon.path, "run", "--log-level", "warning", "--class", "paid=0.0.0.0/0,::/0"]
                    + ["--state-directory", work.path + "/state"]
            )
            defer {
                kill(daemon, SIGTERM)
                Tool.end(of: daemon)
            }
            // The socket is there before the first sweep. Until that, the daemon has no answers.
            let fetch = ["fetch", Self.directory + "/control.sock", "/v1/snapshot"]
            try #require(
                try await eventually { try await Program.run(Machine.programs.generator, fetch).code == 0 }
            )
            var run = 0
            for (name, text) in Documents.all.sorted(by: { $0.key < $1.key }) {
                for command in Documents.blocks("sh", in: text).flatMap(Documents.commands) {
                    // A screen needs a terminal. The test stops commands that run until they are stopped.
                    let isScreen = command.contains("top") && !command.contains("--once")
                    let goesOn = isScreen || ["watch", "trafficd run"].contains { command.contains($0) }
                    let wanted =
                        command.contains("trafficd run")
                        ? command + " --runtime-directory \(work.path)/run"
                        : command.firstMatch(of: /trafficctl record ([^ ]+)/).map { match in
                            // The documents replay the file later.
                            "\(command) & until test -s \(match.output.1); do sleep 0.1; done; kill $!; wait $!"
                        } ?? command
                    let words =
                        isScreen ? ["script", "-qec", wanted, "/dev/null"] : ["bash", "-o", "pipefail", "-c", wanted]
                    let tool = try await Tool.run(
                        "timeout",
                        [goesOn ? "3" : "300", "env", "-C", work.path] + words,
                        environment: ["PATH": path, "TERM": "xterm-256color"],
                        mayFail: true
                    )
                    let isGood = tool.status == 0 || (goesOn && (tool.status == 124 || tool.status == 128 + SIGTERM))
                    #expect(isGood, "\(name): \(command): \(tool.status) \(tool.error)")
                    run += 1
                }
            }
            #expect(run > 14)
        }
    }
}
