import FoundationEssentials
import Glibc
import TrafficCapture
import TrafficLedger
import TrafficModel

/// What one daemon leaves to the next: the state of its ledger, and how far the capture had been read for it.
struct Checkpoint {
    var position: CapturePosition
    /// When the first of these daemons began to count.
    var countingSince: Timestamp
    /// Where the capture is pinned.
    var pinDirectory: String
    /// As ``Ledger/checkpoint()``, or ``Ledger/sums()``.
    var ledger: [UInt8]

    /// The first line of the file, as JSON. The ledger comes after it.
    private struct Head: Codable {
        var position: CapturePosition
        var countingSinceNanoseconds: Int64
        var pinDirectory: String
    }

    init(position: CapturePosition, countingSince: Timestamp, pinDirectory: String, ledger: [UInt8]) {
        (self.position, self.countingSince) = (position, countingSince)
        (self.pinDirectory, self.ledger) = (pinDirectory, ledger)
    }

    init(bytes: [UInt8]) throws(CheckpointError) {
        let end = bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex
        guard let head = try? JSONDecoder().decode(Head.self, from: Data(bytes[..<end])) else {
            throw .notACheckpoint
        }
        self.position = head.position
        self.countingSince = Timestamp(nanosecondsSinceEpoch: head.countingSinceNanoseconds)
        self.pinDirectory = head.pinDirectory
        self.ledger = Array(bytes[end...].dropFirst())
    }

    func bytes() throws -> [UInt8] {
        let head = Head(
            position: self.position,
            countingSinceNanoseconds: self.countingSince.nanosecondsSinceEpoch,
            pinDirectory: self.pinDirectory
        )
        return try Array(JSONEncoder().encode(head)) + [UInt8(ascii: "\n")] + self.ledger
    }
}

/// The file with the last ``Checkpoint``. It is on a file system in memory, like all of the runtime directory: what the
/// kernel counted ends with the machine, too. So nothing needs to reach a disk.
///
/// Beside it are small ones, with the sums alone, of the counts that history has: the next daemon hands over what came later.
struct CheckpointFile {
    let path: String
    /// The sums when the last minute was handed to history, which may not have written it yet.
    private var handed: String { self.path + ".handed" }
    /// The same of the last minute that is in history for certain.
    private var written: String { self.path + ".written" }

    /// Of the daemon that writes; `nil`: it pins nothing, and writes nothing.
    let pinDirectory: String?

    init(in runtimeDirectory: String, pinDirectory: String?) {
        (self.path, self.pinDirectory) = (runtimeDirectory + "/checkpoint", pinDirectory)
    }

    /// - Returns: `nil` if there is none.
    /// - Throws: ``CheckpointError`` if the file is no checkpoint, ``CaptureError`` if it can't be read.
    func read() throws -> Checkpoint? { try self.read(self.path) }

    /// As of ``markHanded()``; `nil` if there is none, or if it can't be read.
    func readHanded() -> Checkpoint? { try? self.read(self.handed) }

    /// As of ``markWritten()``; `nil` if there is none, or if it can't be read.
    func readWritten() -> Checkpoint? { try? self.read(self.written) }

    private func read(_ path: String) throws -> Checkpoint? {
        guard access(path, F_OK) == 0 || errno != ENOENT else { return nil }
        let descriptor = try check("open", path) { open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) }
        defer { close(descriptor) }
        var status = stat()
        try check("stat", path) { fstat(descriptor, &status) }
        // Nobody else can have written it.
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid() else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var length = 0
        while length < bytes.count {
            let count = try bytes.withUnsafeMutableBytes { buffer in
                try check("read", path) {
                    Glibc.read(descriptor, buffer.baseAddress! + length, buffer.count - length)
                }
            }
            if count == 0 { break }
            length += count
        }
        return try Checkpoint(bytes: Array(bytes[..<length]))
    }

    /// The file has either the last checkpoint or this one, whenever the daemon is killed.
    func write(_ ledger: Ledger, at position: CapturePosition, countingSince: Timestamp) throws {
        try self.write(ledger.checkpoint(), at: position, countingSince, to: self.path)
    }

    private func write(
        _ ledger: [UInt8],
        at position: CapturePosition,
        _ countingSince: Timestamp,
        to path: String
    ) throws {
        let checkpoint = Checkpoint(
            position: position,
            countingSince: countingSince,
            pinDirectory: self.pinDirectory ?? "",
            ledger: ledger
        )
        let new = path + ".new"
        unlink(new)
        let file = try OwnedDescriptor(path: new, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        try file.writeAll(checkpoint.bytes(), name: new)
        try check("rename", new) { rename(new, path) }
    }

    /// History gets what this ledger has counted, of which there is a checkpoint.
    func markHanded(_ ledger: Ledger, at position: CapturePosition, countingSince: Timestamp) throws {
        try self.write(ledger.sums(), at: position, countingSince, to: self.handed)
    }

    /// History has what was handed over last.
    func markWritten() { rename(self.handed, self.written) }

    /// What was handed over last never reached history.
    func forgetHanded() { unlink(self.handed) }

    /// History has what this ledger has counted, or shall not have it.
    func markAllWritten(_ ledger: Ledger, at position: CapturePosition, countingSince: Timestamp) throws {
        try self.write(ledger.sums(), at: position, countingSince, to: self.written)
        self.forgetHanded()
    }

    func remove() {
        let all = [self.path, self.handed, self.written]
        for path in all + all.map({ $0 + ".new" }) { unlink(path) }
    }
}
