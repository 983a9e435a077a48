/// A part of a capture that could not be read at the last attempt.
public struct ReadFailure: Sendable, Hashable {
    /// The part: a program, a map, a netlink family.
    public var part: String
    public var reason: String
}

/// Reads the parts of a capture, so that a failing part does not affect the others. The next sweep tries a failed part
/// again. All numbers are cumulative, so a failure delays numbers but loses none.
final class ReadFailures {
    /// Number of failures since the capture began.
    private(set) var count: UInt64
    /// The parts that failed at the last attempt. The latest failure is the last element.
    private(set) var current: [ReadFailure] = []
    private var succeeded = 0
    private var lastError: CaptureError?

    /// - Parameter count: Failures of an earlier reader of the same capture.
    init(count: UInt64 = 0) {
        self.count = count
    }

    func beginSweep() {
        self.succeeded = 0
        self.lastError = nil
    }

    /// - Returns: Whether the part could be read.
    @discardableResult
    func attempt(_ part: String, _ body: () throws(CaptureError) -> Void) -> Bool {
        do {
            try body()
            self.succeeded += 1
            self.current.removeAll { $0.part == part }
            return true
        } catch {
            self.note(part, error)
            return false
        }
    }

    func note(_ part: String, _ error: CaptureError) {
        self.count += 1
        self.lastError = error
        self.current.removeAll { $0.part == part }
        self.current.append(ReadFailure(part: part, reason: "\(error)"))
    }

    /// - Throws: The last error, if no part at all could be read in this sweep.
    func endSweep() throws(CaptureError) {
        if self.succeeded == 0, let lastError { throw lastError }
    }

    /// One sentence for each part that can't be read at present.
    var blindSpots: [String] {
        self.current.map { "not read at present: \($0.part) (\($0.reason))" }
    }
}

/// Decides which failures get a line in the log: each part once a minute at most, with the number of failures in
/// between.
public struct ReadFailureLog {
    private static let restNanoseconds: UInt64 = 60_000_000_000
    private var parts: [String: (loggedAt: UInt64, unlogged: Int)] = [:]

    public init() {}

    /// - Parameters:
    ///   - failures: The failures of one sweep.
    ///   - now: Nanoseconds of a clock that does not jump.
    /// - Returns: The lines to log.
    public mutating func lines(_ failures: [ReadFailure], now: UInt64) -> [String] {
        var lines: [String] = []
        for failure in failures {
            if let known = self.parts[failure.part], now < known.loggedAt &+ Self.restNanoseconds {
                self.parts[failure.part]?.unlogged += 1
                continue
            }
            let unlogged = self.parts[failure.part]?.unlogged ?? 0
            lines.append(
                "can't read \(failure.part), will ask again: \(failure.reason)"
                    + (unlogged > 0 ? " (and \(unlogged) times since this was last said)" : "")
            )
            self.parts[failure.part] = (now, 0)
        }
        return lines
    }
}
