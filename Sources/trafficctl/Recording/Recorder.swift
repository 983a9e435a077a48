import CommandOptions
import Glibc
import NIOCore
import TrafficModel
import TrafficRecording
import TrafficView

/// Writes the daemon's stream to a file until its task is cancelled. One task alone has it.
final class Recorder {
    private let client: ControlClient
    private let output: RecordingFile
    private let interval: TimeSpan
    private let filter: String?
    private let pseudonyms: Pseudonyms?
    private let maxSize: Int
    private let begin: @Sendable () -> Void

    private var writer: RecordingWriter
    private var descriptor: Int32 = -1
    private var started = Timestamp.now
    /// Cells of the line of progress on the terminal.
    private var width = 0

    private struct IsFull: Error {}

    /// - Parameters:
    ///   - pseudonyms: `nil` keeps names.
    ///   - begin: Called when the first snapshot has come.
    /// - Throws: `RecordingError`.
    init(
        client: ControlClient,
        output: RecordingFile,
        interval: TimeSpan,
        filter: String?,
        pseudonyms: Pseudonyms?,
        maxSize: Int,
        begin: @escaping @Sendable () -> Void
    ) throws(RecordingError) {
        self.writer = try RecordingWriter()
        (self.client, self.output, self.interval) = (client, output, interval)
        (self.filter, self.pseudonyms, self.maxSize, self.begin) = (filter, pseudonyms, maxSize, begin)
    }

    private static let shortestPause = Duration.milliseconds(250)
    private static let longestPause = Duration.seconds(5)

    /// - Throws: `Failure`, `OutputClosed`, `RecordingError`.
    func run() async throws {
        defer { if self.descriptor >= 0 { close(self.descriptor) } }
        do {
            try await self.record()
        } catch is IsFull {
            // As asked for.
        }
        try self.end()
    }

    private func record() async throws {
        var pause = Self.shortestPause
        while !Task.isCancelled {
            let before = self.writer.snapshots
            do {
                try await self.readStream()
            } catch let failure as Failure {
                if Task.isCancelled { return }
                switch failure {
                case .notRunning, .disconnected:
                    // At first there must be a daemon. Later it may be replaced by another one.
                    guard self.writer.snapshots > 0 else { throw failure }
                    if self.writer.snapshots > before { self.warn("waiting for trafficd: \(failure)") }
                default: throw failure
                }
            }
            if self.writer.snapshots > before { pause = Self.shortestPause }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func readStream() async throws {
        let query = [("interval", "\(self.interval.seconds)"), ("view", "snapshot"), ("filter", self.filter)]
        var lines = LineSplitter()
        try await self.client.stream("/v1/stream", query) { part in
            lines.append(part)
            while let line = lines.next() { try self.take(try Snapshot(json: line)) }
        }
        // A stream has no end of its own.
        throw Failure.disconnected(reason: "trafficd closed it")
    }

    private func take(_ snapshot: Snapshot) throws {
        let snapshot = self.pseudonyms.map { snapshot.redacted($0) } ?? snapshot
        if self.writer.snapshots == 0 {
            self.started = .now
            self.begin()
            self.descriptor = try self.output.open()
            let header = RecordingHeader(
                startedAt: self.started,
                interval: self.interval.seconds,
                redacted: self.pseudonyms != nil,
                filtered: self.filter != nil,
                snapshot: snapshot
            )
            try self.write(try self.writer.begin(header))
        }
        guard let bytes = try self.writer.add(snapshot) else {
            return self.warn("left out a snapshot that is too long for a recording: record fewer rows with --filter")
        }
        try self.write(bytes)
        self.showProgress()
        if self.writer.bytes >= self.maxSize { throw IsFull() }
    }

    private func end() throws {
        guard self.writer.snapshots > 0 else { throw Failure.nothingRecorded }
        try self.write(try self.writer.end())
        guard StandardStream.error.isTerminal else { return }
        let asText = Units.bytes.text(UInt64(self.writer.plainBytes))
        self.clear()
        try? StandardStream.error.write("\(self.progress) (\(asText) as text)\n")
    }

    /// - Throws: `Failure.notWritten`, `OutputClosed`.
    private func write(_ bytes: [UInt8]) throws {
        let path = self.output.isStandardOutput ? "standard output" : self.output.path
        let descriptor = self.descriptor
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(Failure) in try unsafe writeAll(bytes, to: descriptor, path: path) }
        }
        do throws(Failure) {
            try result.get()
        } catch .notWritten(_, EPIPE) {
            throw OutputClosed()
        } catch {
            self.clear()
            throw error
        }
    }

    // MARK: Progress

    private var progress: String {
        let seconds = Double(Timestamp.now.nanosecondsSinceEpoch -| self.started.nanosecondsSinceEpoch) / 1e9
        let count = self.writer.snapshots
        return "\(TimeText.duration(seconds: seconds)), \(count) \(count == 1 ? "snapshot" : "snapshots"), "
            + Units.bytes.text(UInt64(self.writer.bytes))
    }

    private func showProgress() {
        guard StandardStream.error.isTerminal else { return }
        let line = "recording: \(self.progress); Ctrl-C ends it"
        self.clear()
        self.width = line.utf8.count
        try? StandardStream.error.write(line)
    }

    private func clear() {
        guard self.width > 0 else { return }
        try? StandardStream.error.write("\r" + String(repeating: " ", count: self.width) + "\r")
        self.width = 0
    }

    private func warn(_ text: String) {
        self.clear()
        say(text)
    }
}
