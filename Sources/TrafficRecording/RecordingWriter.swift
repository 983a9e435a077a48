import FoundationEssentials
import TrafficExport
package import TrafficModel

/// Makes the bytes of a recording: Zstandard frames (RFC 8878) with lines of JSON, which `zstdcat` shows. The first line
/// is the header, the last one a ``RecordingEnd``, each line between a snapshot, as `trafficctl watch` prints it.
///
/// Each line ends a block, so a file that is cut anywhere has all lines before the cut. A frame ends after some lines: its
/// checksum proves them, and a reader can begin at any frame.
package struct RecordingWriter: ~Copyable {
    private let compressor: Compressor
    private var linesOfFrame = 0
    private var bytesOfFrame = 0
    /// Of snapshots, before and after compression.
    package private(set) var snapshots = 0
    package private(set) var plainBytes = 0
    package private(set) var bytes = 0

    /// A frame has at most so many lines, and ends with the line that makes it longer than so many bytes.
    static let mostLines = 64
    static let longestFrame = 16 << 20
    /// Of a line. A snapshot of 200,000 sockets has less.
    static let longestLine = 256 << 20

    /// - Throws: ``RecordingError/notCompressed(reason:)``, as all of this.
    package init() throws(RecordingError) { self.compressor = try Compressor() }

    /// - Returns: What comes first in the file.
    package mutating func begin(_ header: RecordingHeader) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let line = [UInt8](try encoder.encode(header)) + [UInt8(ascii: "\n")]
        return self.count(try self.compressor.compress(line, endsFrame: true))
    }

    /// - Returns: What comes next in the file. `nil` if the snapshot is too long for a recording.
    package mutating func add(_ snapshot: Snapshot) throws(RecordingError) -> [UInt8]? {
        let line = snapshot.json() + [UInt8(ascii: "\n")]
        guard line.count <= Self.longestLine else { return nil }
        self.linesOfFrame += 1
        self.bytesOfFrame += line.count
        let endsFrame = self.linesOfFrame == Self.mostLines || self.bytesOfFrame > Self.longestFrame
        if endsFrame { (self.linesOfFrame, self.bytesOfFrame) = (0, 0) }
        self.snapshots += 1
        self.plainBytes += line.count
        return self.count(try self.compressor.compress(line, endsFrame: endsFrame))
    }

    /// - Returns: What comes last in the file: a line that says so. A file without it is cut.
    package mutating func end() throws -> [UInt8] {
        let line = [UInt8](try JSONEncoder().encode(RecordingEnd(snapshots: self.snapshots))) + [UInt8(ascii: "\n")]
        return self.count(try self.compressor.compress(line, endsFrame: true))
    }

    private mutating func count(_ bytes: [UInt8]) -> [UInt8] {
        self.bytes += bytes.count
        return bytes
    }
}
