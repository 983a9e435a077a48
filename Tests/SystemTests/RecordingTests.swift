import Foundation
import Glibc
import GroundTruth
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel
import TrafficRecording

/// Waits until the condition holds.
private func until(_ holds: () async throws -> Bool) async throws {
    #expect(try await eventually { try await holds() })
}

extension SurfaceTests {
    @Suite(.needs("python3", "setpriv"))
    struct RecordingTests {
        /// Sends bytes to itself whenever a line comes, and prints what its calls returned.
        private static let program = """
            import socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
            for line in sys.stdin:
                size, sent, received = int(line), 0, 0
                while sent < size:
                    step = client.send(bytes(min(65_521, size - sent)))
                    sent += step
                    while received < sent: received += len(server.recv(65536))
                print(sent, received, flush=True)
            """

        private static func client(
            _ arguments: [String]
        ) async throws -> (code: Int32, output: String, error: String) {
            let result = try await Program.run(Machine.programs.client, arguments)
            return (result.code, String(decoding: result.output, as: UTF8.self), result.error)
        }

        @Test(
            "what a program moves while it is recorded is in the replay and in its history, to the byte",
            .needsBPF,
            arguments: [true, false]
        )
        func exact(isRedacted: Bool) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "recording-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let name = "r-\(UUID().uuidString.prefix(8))"
            let link = folder.appending(path: name)
            try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "/usr/bin/python3")
            let file = folder.appending(path: "a.rec").path
            try await withDaemon { daemon in
                let directory = daemon.directories.controlSocket.deletingLastPathComponent().path
                let generator = try Program(link, ["-c", Self.program])
                var moved: [PayloadBytes] = []
                func move(_ size: Int) async throws {
                    try generator.writeLine("\(size)")
                    let said = String(decoding: try #require(try await generator.line()), as: UTF8.self)
                    let numbers = said.split(separator: " ").compactMap { UInt64($0) }
                    moved.append(PayloadBytes(sent: numbers[0], received: numbers[1]))
                }
                /// A snapshot with all that the generator has moved.
                func counted() async throws -> Snapshot {
                    let all = moved.reduce(PayloadBytes(), +)
                    let hasAll = { (snapshot: Snapshot) in
                        snapshot.processes?.first { $0.details.name == name }?.bytes.payload == all
                    }
                    let snapshot = try await look(until: hasAll) { try await daemon.snapshot() }
                    #expect(hasAll(snapshot))
                    return snapshot
                }
                try await move(1_000_003)
                _ = try await counted()
                let options = ["--interval", "0.1"] + (isRedacted ? [] : ["--no-redact"])
                let recorder = try Program(
                    Machine.programs.client,
                    ["record", file, "--runtime-directory", directory] + options
                )
                try await until { (try? Recording(path: file)) != nil }
                try await move(65_537)
                try await move(7_654_321)
                let whole = try await counted()
                // A record of a tick after that. On a busy machine the next records may be of ticks before it.
                try await until {
                    let recording = try Recording(path: file)
                    let last = try recording.snapshot(recording.count - 1)
                    return last.takenBoottimeNanoseconds > whole.takenBoottimeNanoseconds
                }
                recorder.signal(SIGINT)
                #expect(try await recorder.exit() == 0)
                generator.closeInput()
                _ = try await generator.exit()

                let recording = try Recording(path: file)
                #expect(recording.fault == nil && recording.header.redacted == isRedacted)
                let attributes = try FileManager.default.attributesOfItem(atPath: file)
                #expect(attributes[.posixPermissions] as? Int == 0o600)
                let truth = moved.dropFirst().reduce(PayloadBytes(), +)
                let first = try recording.snapshot(0)
                let last = try recording.snapshot(recording.count - 1)
                func bytes(_ snapshot: Snapshot) -> PayloadBytes {
                    let row = snapshot.processes?.first { $0.identity.pid == generator.pid }
                    return row?.bytes.payload ?? PayloadBytes()
                }
                #expect(bytes(last).growth(since: bytes(first)) == truth)
                let row = try #require(last.processes?.first { $0.identity.pid == generator.pid })
                #expect((row.details.name == name) == !isRedacted)
                #expect(row.details.uid == 0 && row.details.user == "root")

                let json = try await Self.client(["replay", file, "--to", "history", "--format", "json"])
                let report = try JSONDecoder().decode(HistoryReport.self, from: Data(json.output.utf8))
                let sums = report.rows.filter { $0.name.process == row.details.name }
                #expect(sums.map(\.bytes.payload) == [truth], "\(json.error)")
                let picture = try await Self.client(["replay", file, "--once", "--ascii", "--width", "120"])
                #expect(picture.output.contains(row.details.name) && picture.output.contains("\(recording.count) of"))
                let lines = try await Self.client(["replay", file, "--to", "ndjson"]).output.split(separator: "\n")
                #expect(lines.count == recording.count)
                let again = try lines.last.map {
                    try JSONDecoder().decode(Snapshot.self, from: Data($0.utf8))
                }
                #expect(again == last)
            }
        }

        @Test("rules of a file are judged over a recording, and a wrong file names its line", .needsBPF)
        func alerts() async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "recording-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let began = Int64(Date().timeIntervalSince1970) - 3_600
            let file = folder.appending(path: "a.rec")
            for isFiltered in [true, false] {
                var writer = try RecordingWriter()
                var bytes: [UInt8] = []
                for second in stride(from: Int64(0), to: 300, by: 5) {
                    var snapshot = Snapshot.sample()
                    snapshot.takenAt = Timestamp(nanosecondsSinceEpoch: (began + second) * 1_000_000_000)
                    snapshot.takenBoottimeNanoseconds = UInt64(second + 1_000) * 1_000_000_000
                    snapshot.countingSince = Timestamp(nanosecondsSinceEpoch: began * 1_000_000_000)
                    snapshot.processes?[0].bytes.payload.sent = UInt64(min(max(0, second - 100), 100)) * 5_000_000
                    if second == 0 {
                        bytes += try writer.begin(
                            RecordingHeader(
                                startedAt: snapshot.takenAt,
                                interval: 5,
                                redacted: false,
                                filtered: isFiltered,
                                snapshot: snapshot
                            )
                        )
                    }
                    bytes += try writer.add(snapshot) ?? []
                }
                try Data(bytes + writer.end()).write(to: file)
                guard isFiltered else { continue }
                // Rows come and go by the filter, which would look like growth.
                let refused = try await Self.client(["replay", file.path, "--to", "history"])
                #expect(refused.code == 1 && refused.error.contains("record without --filter"), "\(refused.error)")
            }
            let rules = folder.appending(path: "rules.yaml")
            try Data("alerts:\n  - {name: uplink, match: 'process:nginx', rate: 1M, for: 1m}\n".utf8).write(to: rules)
            chmod(rules.path, 0o600)
            let arguments = ["replay", file.path, "--to", "alerts", "--config", rules.path]
            let judged = try await Self.client(arguments)
            #expect(judged.code == 0, "\(judged.error)")
            let lines = judged.output.split(separator: "\n")
            #expect(lines.count == 3 && lines[1].contains("begins  uplink  nginx    www-data"), "\(judged.output)")
            let text = try await Self.client(arguments + ["--format", "ndjson"])
            let notices = try text.output.split(separator: "\n").map {
                try JSONDecoder().decode(AlertNotice.self, from: Data($0.utf8))
            }
            #expect(notices.map(\.change) == [.began, .ended] && notices.map(\.position.number) == [1, 2])
            #expect(Set(notices.map(\.position.origin)).count == 1 && notices[0].at < notices[1].at)
            #expect(notices.allSatisfy { $0.host == Snapshot.sample().host.name && $0.alert?.process?.name == "nginx" })
            // What the snapshots above say.
            let sent = { (time: Timestamp) in
                let second = time.nanosecondsSinceEpoch / 1_000_000_000 - began
                return UInt64(min(max(0, second - 100), 100)) * 5_000_000
            }
            for notice in notices {
                let alert = try #require(notice.alert)
                #expect(alert.since == notices[0].alert?.since && alert.bytes == sent(notice.at) - sent(alert.since))
            }
            // The same change is the same one whenever somebody looks.
            #expect(try await Self.client(arguments + ["--format", "json"]).output == text.output)
            let refused = try await Self.client(arguments + ["--format", "csv"])
            #expect(refused.code == 64 && refused.error.contains("--to alerts takes --format table, json or ndjson"))
            try Data("alerts:\n  - {name: uplink, rate: often, for: 1m}\n".utf8).write(to: rules)
            let wrong = try await Self.client(arguments)
            #expect(wrong.code == 78 && wrong.error.hasPrefix("\(rules.path):2:"))
        }
    }
}

/// `record` against a made-up daemon, and `replay` in a real terminal.
@Suite("record and replay", .serialized)
struct RecordCommandTests {
    @Test("an existing file stays without --force, and so does what is no plain file")
    func existing() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample() }
            defer { daemon.stop() }
            let record = "$ctl record --runtime-directory $dir --interval 0.1 --for 500ms"
            let kept = try Lab.shell("echo old >$dir/a; \(record) $dir/a; echo $?; cat $dir/a", directory)
            #expect(
                kept.output == "1\nold\n" && kept.error == "trafficctl: \(directory)/a exists: --force replaces it\n"
            )
            let replaced = try Lab.shell("\(record) --force $dir/a && stat -c %a $dir/a", directory)
            #expect(replaced.output == "600\n" && replaced.error.isEmpty, "\(replaced.error)")
            #expect(try Recording(path: directory + "/a").fault == nil)
            for path in ["$dir", "/dev/null"] {
                let other = try Lab.shell("\(record) --force \(path)", directory)
                #expect(other.status == 1 && other.error.contains("is not a plain file"), "\(path)")
            }
            let piped = try Lab.shell("\(record) - >$dir/b && $ctl replay $dir/b --once", directory)
            #expect(piped.status == 0 && piped.output.contains("the end, paused"), "\(piped.error)")
            let nowhere = try Lab.shell("\(record) /nosuch/a", directory)
            #expect(nowhere.error == "trafficctl: can't write /nosuch/a: No such file or directory\n")
            daemon.stop()
            // Without a daemon the older file stays, too.
            let gone = try Lab.shell("\(record) --force $dir/a; echo $?; stat -c %a $dir/a", directory)
            #expect(gone.output == "69\n600\n")
        }
    }

    @Test("--for counts from the first snapshot, however late that comes")
    func late() async throws {
        try await Lab.withDirectory { directory in
            let first = Mutex<ContinuousClock.Instant?>(nil)
            let daemon = try FakeDaemon(directory: directory) {
                if first.withLock({ $0 }) == nil {
                    // As a daemon that is very busy: much later than `--for`.
                    Thread.sleep(forTimeInterval: 2)
                    first.withLock { $0 = .now }
                }
                return .sample()
            }
            defer { daemon.stop() }
            let recorded = try Lab.shell(
                "$ctl record --runtime-directory $dir --interval 0.1 --for 500ms $dir/a",
                directory
            )
            #expect(recorded.status == 0 && recorded.error.isEmpty, "\(recorded.error)")
            #expect(try Recording(path: directory + "/a").count > 0)
            // The time does not end with the first snapshot either.
            let firstAt = try #require(first.withLock { $0 })
            #expect(ContinuousClock.now - firstAt >= .milliseconds(500))
        }
    }

    @Test("Ctrl-C before the first snapshot leaves no file, and says where to look")
    func silent() async throws {
        try await Lab.withDirectory { directory in
            let isAsked = Atomic(false)
            let isOver = Atomic(false)
            let daemon = try FakeDaemon(directory: directory) {
                isAsked.store(true, ordering: .relaxed)
                while !isOver.load(ordering: .relaxed) { usleep(10_000) }
                return .sample()
            }
            defer {
                isOver.store(true, ordering: .relaxed)
                daemon.stop()
            }
            let recorder = try Program(
                URL(filePath: Lab.binary("trafficctl")),
                ["record", directory + "/a", "--runtime-directory", directory, "--for", "1h"]
            )
            #expect(try await eventually { isAsked.load(ordering: .relaxed) })
            recorder.signal(SIGINT)
            #expect(try await recorder.exit() == 1)
            #expect(recorder.errorText.hasSuffix("no snapshot came from trafficd; see trafficctl doctor\n"))
            #expect(!FileManager.default.fileExists(atPath: directory + "/a"))
        }
    }

    @Test("a full disk and --max-size end the recording, and what was written is replayed")
    func full() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample(sockets: 200) }
            defer { daemon.stop() }
            let record = "$ctl record --runtime-directory $dir --interval 0.1"
            // Files of at most 8 kB, as if the disk were full then.
            let full = try Lab.shell("trap '' XFSZ; ulimit -f 8; \(record) $dir/a", directory)
            #expect(full.status == 1 && full.error == "trafficctl: can't write \(directory)/a: File too large\n")
            let recording = try Recording(path: directory + "/a")
            #expect(recording.fault != nil && recording.count >= 1)
            _ = try recording.snapshot(recording.count - 1)
            let limited = try Lab.shell("\(record) --max-size 8k $dir/b; stat -c %s $dir/b", directory)
            let size = try #require(Int(limited.output.trimmingCharacters(in: .whitespacesAndNewlines)))
            #expect((8_000...16_000).contains(size), "\(limited.error)")
            #expect(try Recording(path: directory + "/b").fault == nil)
        }
    }

    @Test("a recording goes on with the next daemon")
    func restart() async throws {
        try await Lab.withDirectory { directory in
            var daemon = try FakeDaemon(directory: directory) { .sample() }
            let path = directory + "/a"
            let recorder = try Program(
                URL(filePath: Lab.binary("trafficctl")),
                ["record", path, "--runtime-directory", directory, "--interval", "0.1"]
            )
            try await until { (try? Recording(path: path)) != nil }
            daemon.stop()
            try await until { recorder.errorText.contains("waiting for trafficd") }
            let count = try Recording(path: path).count
            daemon = try FakeDaemon(directory: directory) { .sample() }
            defer { daemon.stop() }
            try await until { try Recording(path: path).count >= count + 2 }
            recorder.signal(SIGTERM)
            #expect(try await recorder.exit() == 0)
            #expect(try Recording(path: path).fault == nil)
        }
    }

    @Test("top shows a recording, and goes back and forth", .enabled(if: Terminal.isAvailable, "tmux is not installed"))
    func screen() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample() }
            let path = directory + "/a"
            let recorder = try Program(
                URL(filePath: Lab.binary("trafficctl")),
                ["record", path, "--no-redact", "--runtime-directory", directory, "-i", "0.1"]
            )
            try await until { (try? Recording(path: path).count) ?? 0 >= 5 }
            recorder.signal(SIGINT)
            #expect(try await recorder.exit() == 0, "\(recorder.errorText)")
            daemon.stop()
            let count = try Recording(path: path).count
            let terminal = try Terminal(
                width: 80,
                height: 24,
                directory: directory,
                command: "'\(Lab.binary("trafficctl"))' replay '\(path)'",
                locale: "C.UTF-8",
                type: "screen-256color"
            )
            try await terminal.wait(for: "\(count) of \(count), the end")
            #expect(try terminal.screen.contains("recorded 20"))
            try terminal.type("^[")
            try terminal.type(" ]")
            try await terminal.wait(for: "2 of \(count), paused")
            try terminal.type("[")
            try await terminal.wait(for: "1 of \(count), paused")
            try terminal.type("/idl")
            try await terminal.wait("the filtered list") { $0.contains("idler") && !$0.contains("nginx") }
            try terminal.press("Escape")
            try await terminal.wait(for: "nginx")
            try terminal.type(")) ")
            try await terminal.wait(for: "the end, 4x")
            try terminal.type("?")
            try await terminal.wait(for: "a snapshot back, forward")
            try terminal.type("qq")
            try await terminal.wait(for: "exit status 0")
            try await terminal.expectRestored()
        }
    }
}
