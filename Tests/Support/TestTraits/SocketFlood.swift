// `swift build` compiles this target too, although only tests need it, and Swift's static libraries have no Testing.
#if canImport(Testing)
import Glibc
public import Testing

/// Keeps tests that end tens of thousands of sockets away from tests that need each socket's record. The programs in the
/// kernel give each user some room for ends between two drains, and all tests are of one user: also those of another
/// process, which runs the same sources.
public struct SocketFlood: TestTrait, SuiteTrait, TestScoping {
    private enum Role { case floods, needsRecords }

    private static let file = #filePath
    private static let directory = String(file[..<(file.lastIndex(of: "/") ?? file.endIndex)])

    private let role: Role

    /// The test fills root's room.
    public static let floods = SocketFlood(role: .floods)
    /// No test may fill root's room meanwhile.
    public static let needsRecords = SocketFlood(role: .needsRecords)

    /// For each test of a suite.
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // Whoever waits for the room keeps the door, so that tests that follow one another do not keep a flood out.
        let door = try FileLock(Self.file)
        let room = try FileLock(Self.directory)
        try await door.take(LOCK_EX)
        try await room.take(self.role == .floods ? LOCK_EX : LOCK_SH)
        door.release()
        try await function()
    }
}

/// flock(2) on a file that exists. It ends with the value, however a test ends.
private final class FileLock: Sendable {
    struct Failure: Error {
        let path: String
        let errno: Int32
    }

    private let descriptor: Int32

    init(_ path: String) throws {
        self.descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard self.descriptor >= 0 else { throw Failure(path: path, errno: errno) }
    }

    deinit { close(self.descriptor) }

    /// Waits without keeping a thread.
    func take(_ kind: Int32) async throws {
        while flock(self.descriptor, kind | LOCK_NB) != 0 { try await Task.sleep(for: .milliseconds(10)) }
    }

    func release() { flock(self.descriptor, LOCK_UN) }
}
#endif
