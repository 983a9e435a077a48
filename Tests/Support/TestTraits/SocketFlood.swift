// `swift build` compiles this target too, although only tests need it, and Swift's static libraries have no Testing.
#if canImport(Testing)
import Glibc
public import Testing

/// Keeps tests that end tens of thousands of sockets away from tests that need each socket's record. The programs in the
/// kernel give each user some room for ends between two drains, and all tests of a run are of one user.
public struct SocketFlood: TestTrait, SuiteTrait, TestScoping {
    private enum Role { case floods, needsRecords }

    /// A trait within a trait would wait for itself.
    struct Nested: Error, CustomStringConvertible {
        let description: String
    }

    private static let file = #filePath
    private static let directory = String(file[..<(file.lastIndex(of: "/") ?? file.endIndex)])
    /// What a flood has left in the maps of running daemons goes with their next two sweeps.
    private static let aftermath = Duration.seconds(2.5)
    @TaskLocal private static var isWithin = false

    private let role: Role

    /// The test fills root's room.
    public static let floods = SocketFlood(role: .floods)
    /// No test may fill root's room meanwhile.
    public static let needsRecords = SocketFlood(role: .needsRecords)

    /// Each case of each test takes the lock, and the suite takes none.
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        guard !Self.isWithin else { throw Nested(description: "\(test.name) has the trait SocketFlood twice") }
        // A test that waits for the room keeps the door. So later tests can't pass a flood that waits.
        let door = try FileLock(Self.file)
        let room = try FileLock(Self.directory)
        try await door.take(LOCK_EX, for: test.name)
        try await room.take(self.role == .floods ? LOCK_EX : LOCK_SH, for: test.name)
        door.release()
        defer { room.release() }
        try await Self.$isWithin.withValue(true) { try await function() }
        if self.role == .floods { try await Task.sleep(for: Self.aftermath) }
    }
}

/// flock(2) on a file that exists. `deinit` closes the file, and so releases the lock.
private final class FileLock: Sendable {
    struct Failure: Error {
        let path: String
        let errno: Int32
    }

    private let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        self.descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard self.descriptor >= 0 else { throw Failure(path: path, errno: errno) }
    }

    deinit { close(self.descriptor) }

    /// Waits without keeping a thread, and says once that it waits long: the test that has the lock may hang.
    func take(_ kind: Int32, for test: String) async throws {
        var isSaid = false
        let begin = ContinuousClock.now
        while flock(self.descriptor, kind | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR else { throw Failure(path: self.path, errno: errno) }
            if !isSaid, ContinuousClock.now - begin > .seconds(300) {
                isSaid = true
                print("SocketFlood: \(test) has waited for five minutes for another test")
            }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    func release() { flock(self.descriptor, LOCK_UN) }
}
#endif
