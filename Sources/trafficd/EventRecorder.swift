import Foundation
import TrafficModel

/// Writes every capture event as one line of JSON: what the ledger was told, for a bug report or a test to replay.
struct EventRecorder: ~Copyable {
    private let file: Foundation.FileHandle
    private let encoder = JSONEncoder()

    /// - Throws: Where the file can't be created.
    init(path: String) throws {
        try Data().write(to: URL(fileURLWithPath: path))
        self.file = try Foundation.FileHandle(forWritingTo: URL(fileURLWithPath: path))
        self.encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    }

    /// - Throws: Where the disk is full; what was written before stays.
    borrowing func record(_ event: CaptureEvent) throws {
        try self.file.write(contentsOf: try self.encoder.encode(event) + [UInt8(ascii: "\n")])
    }
}
