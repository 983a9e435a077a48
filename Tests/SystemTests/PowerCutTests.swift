import Foundation
import GroundTruth
import SQLiteDatabase
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

extension SystemTests {
    /// What a power cut leaves of history, at each write of a daemon.
    @Suite(.needsBPF, .needs("clang"))
    struct PowerCutTests {
        /// One call of the daemon's SQLite, as `Tests/Tools/writes` records it.
        private enum Call {
            case write(file: Int, offset: Int, bytes: Data)
            case sync(file: Int)
            case cut(file: Int, length: Int)
            case remove(file: Int)

            var file: Int {
                switch self {
                case .write(let file, _, _), .sync(let file), .cut(let file, _), .remove(let file): file
                }
            }
        }

        private struct Record {
            var calls: [Call] = []
            /// How many calls there were when the daemon answered that history has so much of the mover.
            var answers: [(calls: Int, payload: PayloadBytes)] = []
        }

        /// The database and its write-ahead log.
        private struct Files {
            private var contents: [Data?] = [nil, nil]

            mutating func apply(_ call: Call, firstBytes: Int = .max) {
                switch call {
                case .write(let file, let offset, let bytes):
                    var content = self.contents[file] ?? Data()
                    let bytes = bytes.prefix(firstBytes)
                    if content.count < offset + bytes.count {
                        content.append(Data(count: offset + bytes.count - content.count))
                    }
                    content.replaceSubrange(offset..<offset + bytes.count, with: bytes)
                    self.contents[file] = content
                case .cut(let file, let length): self.contents[file] = self.contents[file]?.prefix(length)
                case .remove(let file): self.contents[file] = nil
                case .sync: break
                }
            }

            func write(to path: String) throws {
                for (content, ending) in zip(self.contents + [nil], ["", "-wal", "-shm"]) {
                    unlink(path + ending)
                    try content?.write(to: URL(filePath: path + ending))
                }
            }
        }

        private static func parse(_ text: Data) throws -> [Call] {
            var calls: [Call] = []
            var rest = text[...]
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                let words = String(decoding: rest[..<end], as: UTF8.self).split(separator: " ")
                let numbers = words.dropFirst().compactMap { Int($0) }
                try #require(numbers.count == 3, "\(words)")
                rest = rest[(end + 1)...]
                switch words[0] {
                case "write":
                    calls.append(.write(file: numbers[0], offset: numbers[1], bytes: Data(rest.prefix(numbers[2]))))
                    rest = rest.dropFirst(numbers[2] + 1)
                case "sync": calls.append(.sync(file: numbers[0]))
                case "cut": calls.append(.cut(file: numbers[0], length: numbers[1]))
                default: calls.append(.remove(file: numbers[0]))
                }
            }
            return calls
        }

        /// A daemon that writes minutes while a program moves bytes, and then stops.
        private static func record(_ mover: Mover) async throws -> Record {
            let directories = try DaemonDirectories()
            let folder = directories.root
            let library = folder.appending(path: "writes.so").path
            let source = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Tools/writes/writes.c").path
            let compiled = try await tool("clang", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"])
            try #require(compiled.code == 0, "\(compiled.error)")
            let (state, writes) = (folder.appending(path: "state").path, folder.appending(path: "writes"))
            let file = folder.appending(path: "trafficd.yaml")
            // Other classes of addresses end a minute.
            func configure(_ round: Int) throws {
                try Data("classes: {c\(round): [10.0.0.0/8]}\n".utf8).write(to: file)
                try #require(chmod(file.path, 0o600) == 0)
            }
            try configure(0)
            let environment = [
                "LD_PRELOAD=\(library)", "WRITES_OF=\(state)/history.sqlite", "WRITES_TO=\(writes.path)",
            ]
            var record = Record()
            try await withDaemon(
                directories: directories,
                arguments: ["--state-directory", state, "--config", file.path],
                launcher: (program: URL(filePath: "/usr/bin/env"), arguments: environment)
            ) { daemon in
                for round in 1...6 {
                    try await mover.tell("churn \(round) 1001")
                    // A process that the daemon has not looked up yet would come into history with a later minute.
                    let isReady = try await eventually(every: .milliseconds(20)) {
                        let snapshot = try await daemon.snapshot()
                        let process = snapshot.processes?.first { $0.details.name == mover.name }
                        return process?.details.executable != nil && snapshot.payload(of: mover) == mover.moved
                    }
                    try #require(isReady)
                    try configure(round)
                    daemon.program.signal(SIGHUP)
                    let kept = try await look(every: .milliseconds(20), until: { $0 == mover.moved }) {
                        let said = try await Program.run(
                            Machine.programs.client,
                            ["history", "--since", "2h", "--format", "json"] + directories.arguments
                        )
                        return try JSONDecoder().decode(HistoryReport.self, from: said.output).payload(of: mover.name)
                    }
                    #expect(kept == mover.moved)
                    record.answers.append((try Self.parse(Data(contentsOf: writes)).count, kept))
                }
            }
            record.calls = try Self.parse(Data(contentsOf: writes))
            return record
        }

        /// What history has of the mover, in a sound file. `nil`: no database yet.
        private static func kept(_ files: Files, of name: String, at path: String) throws -> PayloadBytes? {
            try files.write(to: path)
            do {
                let store = try HistoryStore(path: path, retention: .default, machine: nil)
                store.patience = 3_600  // seconds; a busy machine may rest in the middle of a question
                var words: [String] = []
                try store.file.run("PRAGMA integrity_check", []) { row in words.append(row.text(0) ?? "") }
                #expect(words == ["ok"])
                let now = Int64(time(nil))
                let question = HistoryQuestion(since: Timestamp(nanosecondsSinceEpoch: (now - 7_200) * 1_000_000_000))
                return try store.report(question, host: "", now: now, userName: { _ in nil }).payload(of: name)
            } catch let error as SQLiteError where error.isCorruption {
                return nil
            }
        }

        @Test(
            "whatever a power cut leaves of the writes, history is sound, and has every minute whose writes were made"
        )
        func everyWrite() async throws {
            let mover = try Mover()
            let record = try await Self.record(mover)
            let calls = record.calls
            #expect(calls.count > 30)
            // In memory: hundreds of files are opened, and none needs a disk.
            let folder = URL(filePath: "/dev/shm/trafficd-power-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let path = folder.appending(path: "history.sqlite").path
            var random = Seeded(5)

            // All writes up to one, and a part of the next one.
            var states: [PayloadBytes] = []
            var (files, last) = (Files(), PayloadBytes())
            for count in 0...calls.count {
                if count > 0 { files.apply(calls[count - 1]) }
                var variants = [files]
                if count < calls.count {
                    var torn = files
                    torn.apply(calls[count], firstBytes: 512 * Int.random(in: 0..<8, using: &random))
                    variants.append(torn)
                }
                let certain = record.answers.last { $0.calls <= count }?.payload ?? PayloadBytes()
                for (index, variant) in variants.enumerated() {
                    guard let kept = try Self.kept(variant, of: mover.name, at: path) else {
                        // Before the first minute, an empty history is begun instead.
                        #expect(certain == PayloadBytes(), "after \(count) of \(calls.count) calls")
                        continue
                    }
                    #expect(!kept.isBehind(certain) && !kept.isBehind(last), "after \(count) of \(calls.count) calls")
                    if index == 0 {
                        last = kept
                        states.append(kept)
                    }
                }
            }
            #expect(last == mover.moved && Set(states).count > 6)

            // Of the writes that were not synchronised, a disk may have made any, in any order, and parts of sectors.
            for _ in 0..<300 {
                let end = Int.random(in: 0...calls.count, using: &random)
                var files = Files()
                let synced = [0, 1].map { file in
                    calls[..<end].lastIndex { if case .sync(file) = $0 { true } else { false } } ?? -1
                }
                for (index, call) in calls[..<end].enumerated() {
                    let isCertain = index <= synced[call.file]
                    let isTorn = !isCertain && Int.random(in: 0..<4, using: &random) == 0
                    guard isCertain || Bool.random(using: &random) else { continue }
                    files.apply(call, firstBytes: isTorn ? 512 * Int.random(in: 0..<8, using: &random) : .max)
                }
                guard let kept = try Self.kept(files, of: mover.name, at: path) else {
                    #expect(synced[0] < 0, "a cut after \(end) of \(calls.count) calls")
                    continue
                }
                #expect(states.contains(kept), "a cut after \(end) of \(calls.count) calls")
            }
        }
    }
}

extension HistoryReport {
    fileprivate func payload(of name: String) -> PayloadBytes {
        self.rows.filter { $0.name.process == name }.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
    }
}
