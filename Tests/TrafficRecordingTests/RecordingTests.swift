import Foundation
import Glibc
import TestSupport
import Testing
import TrafficExport
import TrafficModel

@testable import TrafficRecording

@Suite("The file of a recording")
struct RecordingTests {
    /// More than two frames.
    private static let snapshots = (0..<150).map { second in
        Snapshot.made(
            at: Double(second),
            [.made("nginx", pid: 12, sent: UInt64(second) * 65_537), .made("\u{1b}[2J\n\"\\", pid: 13, sent: .max)]
        )
    }

    @Test("comes back as it was written, in any order")
    func exact() throws {
        let file = try TemporaryFile(try recorded(Self.snapshots))
        let recording = try file.recording()
        #expect(recording.fault == nil && recording.count == 150)
        for index in [0, 149, 63, 64, 65, 1, 128] {
            #expect(try recording.snapshot(index) == Self.snapshots[index])
            #expect(recording.time(of: index) == Self.snapshots[index].takenAt)
        }
        func time(_ second: Int64) -> Timestamp {
            Timestamp(nanosecondsSinceEpoch: (Snapshot.began + second) * 1_000_000_000 + 1)
        }
        #expect(recording.index(at: time(70)) == 70 && recording.index(at: time(-5)) == 0)
        #expect(recording.index(at: time(9_999)) == 149)
    }

    @Test("cut at any byte, has all snapshots before the cut, and says where it was cut")
    func cut() throws {
        let bytes = try recorded(Array(Self.snapshots.prefix(70)))
        var most = 0
        for length in stride(from: 0, to: bytes.count, by: 3) {
            let file = try TemporaryFile(Array(bytes[..<length]))
            do throws(RecordingError) {
                let recording = try file.recording()
                #expect(recording.fault == .cut(at: Int64(length)))
                #expect(recording.count >= most)
                most = recording.count
                let last = try recording.snapshot(recording.count - 1)
                #expect(last == Self.snapshots[recording.count - 1])
            } catch {
                #expect(most == 0, "\(error) at \(length)")
            }
        }
        #expect(most == 70)
    }

    @Test("each snapshot can be read when it is written, before its frame ends")
    func flushed() throws {
        let file = try TemporaryFile(try recorded(Array(Self.snapshots.prefix(3)), ends: false))
        let recording = try file.recording()
        #expect(recording.count == 3 && recording.fault != nil)
        #expect(try recording.snapshot(2) == Self.snapshots[2])
    }

    @Test("a flipped bit never changes a number: what comes after it is left out")
    func flipped() throws {
        let bytes = try recorded(Array(Self.snapshots.prefix(70)))
        var generator = Seeded(1)
        for index in stride(from: 0, to: bytes.count, by: 5) {
            var damaged = bytes
            damaged[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            let file = try TemporaryFile(damaged)
            guard let recording = try? file.recording() else { continue }
            // A bit of a frame's head may mean nothing.
            #expect(recording.fault != nil || recording.count == 70, "byte \(index)")
            for place in 0..<recording.count {
                #expect(try recording.snapshot(place) == Self.snapshots[place], "byte \(index)")
            }
        }
    }

    @Test("what is no recording is refused with the reason")
    func refused() throws {
        func refusal(_ path: String) -> RecordingError? {
            do throws(RecordingError) {
                _ = try Recording(path: path)
                return nil
            } catch {
                return error
            }
        }
        var files: [TemporaryFile] = []
        defer { withExtendedLifetime(files) {} }
        func file(_ bytes: [UInt8]?) throws -> TemporaryFile {
            files.append(try TemporaryFile(bytes))
            return files[files.count - 1]
        }
        let empty = try file([])
        #expect(refusal(empty.path) == .empty(path: empty.path))
        let text = try file(Array(#"{"schema_version":1}"#.utf8))
        #expect(refusal(text.path) == .notARecording(path: text.path))
        let bare = try file(try recorded([]))
        #expect(refusal(bare.path) == .noSnapshots(path: bare.path))
        #expect(refusal("/") == .notAFile(path: "/"))
        #expect(refusal("/nosuch") == .unreadable(path: "/nosuch", error: ENOENT))
        let pipe = try file(nil)
        try #require(mkfifo(pipe.path, 0o600) == 0)
        #expect(refusal(pipe.path) == .notAFile(path: pipe.path))

        let other = try Compressor().compress(Array("{\"format\":\"other\",\"version\":1}\n".utf8), endsFrame: true)
        let foreign = try file(other)
        #expect(refusal(foreign.path) == .notARecording(path: foreign.path))
        let line = #"{"format":"trafficctl recording","version":2,"trafficctl":"9.0.0"}"# + "\n"
        let later = try file(try Compressor().compress(Array(line.utf8), endsFrame: true))
        #expect(refusal(later.path) == .later(path: later.path, version: 2, trafficctl: "9.0.0"))
    }

    @Test("fields of a later trafficctl are skipped, and what comes after the end is not believed")
    func unknown() throws {
        let snapshot = Self.snapshots[0].json()
        let header =
            #"{"filtered":false,"format":"trafficctl recording","interval_seconds":1,"new":[1],"redacted":true,"schema_version":1,"started_at":"2026-11-25T10:00:00.000Z","trafficctl":"0.9.0","version":1}"#
        let line = Array(snapshot.dropLast()) + Array(#","new_field":{"a":1}}"#.utf8)
        let end = #"{"recorded_snapshots":1,"more":2}"#
        let lines = [Array(header.utf8), line, Array(end.utf8)]
        let bytes = try lines.flatMap { try Compressor().compress($0 + [10], endsFrame: true) }
        let recording = try TemporaryFile(bytes).recording()
        #expect(recording.fault == nil && recording.count == 1)
        #expect(try recording.snapshot(0) == Self.snapshots[0])
        let more = try TemporaryFile(bytes + Compressor().compress(line + [10], endsFrame: true)).recording()
        #expect(more.fault == .damaged(at: Int64(bytes.count)) && more.count == 1)
    }

    @Test("a frame that has more bytes than any of ours is refused before memory ends")
    func bomb() throws {
        var bytes = try recorded([Self.snapshots[0]])
        let offset = Int64(bytes.count)
        // Zeros of half a gigabyte, in some kilobytes.
        let compressor = try Compressor()
        let piece = [UInt8](repeating: 0, count: 1 << 24)
        for _ in 0..<20 { bytes += try compressor.compress(piece, endsFrame: false) }
        bytes += try compressor.compress([], endsFrame: true)
        let recording = try TemporaryFile(bytes).recording()
        #expect(recording.fault == .damaged(at: offset) && recording.count == 1)
    }

    @Test("a frame with more lines than any of ours is damage, so a small file has few snapshots")
    func manyLines() throws {
        var writer = try RecordingWriter()
        let header = RecordingHeader(
            startedAt: Self.snapshots[0].takenAt,
            interval: 1,
            redacted: false,
            filtered: false,
            snapshot: Self.snapshots[0]
        )
        var bytes = try writer.begin(header)
        let offset = Int64(bytes.count)
        let line = #""taken_at":"2026-11-25T10:00:00.000Z""# + "\n"
        bytes += try Compressor().compress(Array(String(repeating: line, count: 100_000).utf8), endsFrame: true)
        let recording = try TemporaryFile(bytes).recording()
        #expect(recording.fault == .damaged(at: offset) && recording.count < 100)
    }

    @Test(
        "a snapshot with numbers that no machine has is refused",
        arguments: [
            { $0.takenBoottimeNanoseconds = .max },
            { $0.processes?[0].socketsOpen = .max },
            { $0.processes?[0].rates.sent = 1e300 },
            { $0.totals.rates.received = -1 },
            { $0.socketsUnlisted = -1 },
        ] as [@Sendable (inout Snapshot) -> Void]
    )
    func impossible(_ change: @Sendable (inout Snapshot) -> Void) throws {
        var snapshot = Snapshot.made(at: 0, [.made("curl", pid: 5, sent: 1)])
        #expect(try recording(of: [snapshot]).snapshot(0).processes?.count == 1)
        change(&snapshot)
        let recording = try recording(of: [snapshot])
        #expect(throws: RecordingError.unreadableRecord(number: 1, reason: "impossible numbers")) {
            try recording.snapshot(0)
        }
    }
}
