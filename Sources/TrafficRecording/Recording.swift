import FoundationEssentials
import Glibc
import Synchronization
package import TrafficModel

/// A file with the snapshots of some time. They are decoded when they are asked for.
package final class Recording: Sendable {
    /// Why the file ends before its snapshots do.
    package enum Fault: Sendable, Hashable {
        /// The file ends within a frame, which is so many bytes long.
        case cut(at: Int64)
        /// The frame that begins here, and all that comes after it, can't be trusted.
        case damaged(at: Int64)
    }

    private struct Place: Sendable {
        /// Where its frame begins in the file.
        var frame: Int64
        /// Where its line is in the frame.
        var line: Range<Int>
        var takenAt: Timestamp
    }

    private struct Frame {
        var offset: Int64
        var contents: [UInt8]
    }

    package let header: RecordingHeader
    package let fault: Fault?
    private let file: ReadableFile
    private let places: [Place]
    /// The frame of the last snapshot that was asked for.
    private let frame = Mutex<Frame?>(nil)

    private static let longestFrame = RecordingWriter.longestFrame + RecordingWriter.longestLine
    private static let longestHeader = 1 << 16
    /// Of more, nothing is shown: a small file must not fill the memory. These are 23 days of one a second.
    private static let mostSnapshots = 2_000_000

    /// Reads the whole file once.
    ///
    /// - Throws: ``RecordingError``.
    package init(path: String) throws(RecordingError) {
        self.file = try ReadableFile(path: path)
        guard var reader = FrameReader(self.file, at: 0) else { throw .unreadable(path: path, error: ENOMEM) }
        var (places, fault, isOver): ([Place], Fault?, Bool) = ([], nil, false)
        var contents: [UInt8] = []
        switch reader.next(into: &contents, limit: Self.longestFrame) {
        case .none: throw .empty(path: path)
        case .unreadable(let error): throw .unreadable(path: path, error: error)
        case .damaged, .tooLong: throw .notARecording(path: path)
        // The header's line may be whole in spite of it.
        case .cut: fault = .cut(at: reader.offset)
        case .whole: break
        }
        self.header = try Self.header(contents, of: path)
        while fault == nil {
            let offset = reader.offset
            let end = reader.next(into: &contents, limit: Self.longestFrame)
            if end == .none {
                // A cut between two frames.
                if !isOver { fault = .cut(at: offset) }
                break
            }
            switch end {
            case .unreadable(let error): throw .unreadable(path: path, error: error)
            case .whole where !isOver: break
            case .cut where !isOver: fault = .cut(at: reader.offset)
            case .whole, .cut, .damaged, .tooLong, .none:
                fault = .damaged(at: offset)
                continue
            }
            if !Self.add(contents, offset, to: &places, isOver: &isOver) { fault = .damaged(at: offset) }
        }
        (self.places, self.fault) = (places, fault)
        guard !places.isEmpty else { throw .noSnapshots(path: path) }
    }

    private static func header(_ contents: [UInt8], of path: String) throws(RecordingError) -> RecordingHeader {
        let beginning = contents.prefix(Self.longestHeader)
        guard let end = beginning.firstIndex(of: UInt8(ascii: "\n")) else { throw .notARecording(path: path) }
        let line = Data(contents[..<end])
        guard let beginning = try? JSONDecoder().decode(RecordingHeader.Beginning.self, from: line),
            beginning.format == RecordingHeader.format
        else { throw .notARecording(path: path) }
        guard beginning.version <= RecordingHeader.currentVersion else {
            throw .later(
                path: path,
                version: beginning.version,
                trafficctl: beginning.trafficctl ?? "of another version"
            )
        }
        guard let header = try? JSONDecoder().decode(RecordingHeader.self, from: line) else {
            throw .notARecording(path: path)
        }
        return header
    }

    /// - Parameter isOver: Whether the last line of the recording was there.
    /// - Returns: Whether all lines are those of a recording.
    private static func add(
        _ contents: [UInt8],
        _ offset: Int64,
        to places: inout [Place],
        isOver: inout Bool
    ) -> Bool {
        var (start, lines) = (0, 0)
        while let end = contents[start...].firstIndex(of: UInt8(ascii: "\n")) {
            lines += 1
            // No frame of ours has more.
            guard !isOver, lines <= RecordingWriter.mostLines + 1, places.count < Self.mostSnapshots else {
                return false
            }
            if contents[start..<end].starts(with: RecordingEnd.beginning) {
                isOver = true
                start = end + 1
                continue
            }
            guard let takenAt = Self.time(of: contents[start..<end]) else { return false }
            places.append(Place(frame: offset, line: start..<end, takenAt: takenAt))
            start = end + 1
        }
        return true
    }

    /// The time of a snapshot, without decoding all of it.
    private static func time(of line: ArraySlice<UInt8>) -> Timestamp? {
        let key = Array(#""taken_at":""#.utf8)
        let beginning = line.prefix(200)
        guard let start = beginning.indices.first(where: { beginning[$0...].starts(with: key) }) else { return nil }
        let text = beginning[(start + key.count)...].prefix { $0 != UInt8(ascii: "\"") }
        return Timestamp(rfc3339: String(decoding: text, as: UTF8.self))
    }

    // MARK: Snapshots

    /// At least 1.
    package var count: Int { self.places.count }

    package func time(of index: Int) -> Timestamp { self.places[index].takenAt }

    /// The last snapshot that was taken until then; the first if all were taken later. Where the clock was put back, the
    /// latest of all that qualify.
    package func index(at time: Timestamp) -> Int { self.places.lastIndex { $0.takenAt <= time } ?? 0 }

    /// - Throws: ``RecordingError``.
    package func snapshot(_ index: Int) throws(RecordingError) -> Snapshot {
        let place = self.places[index]
        let line = self.frame.withLock { frame in
            if frame?.offset != place.frame {
                var contents: [UInt8] = []
                // Without memory, as if the file had become shorter.
                if var reader = FrameReader(self.file, at: place.frame) {
                    _ = reader.next(into: &contents, limit: Self.longestFrame)
                }
                frame = Frame(offset: place.frame, contents: contents)
            }
            // The file may have become shorter.
            guard let contents = frame?.contents, contents.count >= place.line.upperBound else { return Data() }
            return Data(contents[place.line])
        }
        let snapshot: Snapshot
        do {
            snapshot = try JSONDecoder().decode(Snapshot.self, from: line)
        } catch {
            throw .unreadableRecord(number: index + 1, reason: "\(error)")
        }
        guard snapshot.isPossible else { throw .unreadableRecord(number: index + 1, reason: "impossible numbers") }
        return snapshot
    }
}

extension Recording.Fault: CustomStringConvertible {
    /// What is missing, in a few words.
    package var description: String {
        switch self {
        case .cut(let offset): "the recording is cut at byte \(offset)"
        case .damaged(let offset): "the recording is damaged from byte \(offset) on"
        }
    }
}
