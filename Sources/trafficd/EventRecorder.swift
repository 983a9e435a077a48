import FoundationEssentials
import Glibc
import TrafficCapture
import TrafficEvents
import TrafficModel

/// Writes every capture event as one line of JSON. The file has what the ledger was told, for a bug report or for a
/// test to replay.
struct EventRecorder: ~Copyable {
    private let file: OwnedDescriptor
    private let encoder = JSONEncoder()

    /// - Throws: If the file can't be created.
    init(path: String) throws {
        self.file = try OwnedDescriptor(path: path, flags: O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK)
        self.encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    }

    /// - Throws: If the disk is full. Earlier lines stay in the file.
    borrowing func record(_ event: CaptureEvent) throws {
        try self.file.writeAll(try self.encoder.encode(event) + [UInt8(ascii: "\n")], name: "the record of events")
    }
}
