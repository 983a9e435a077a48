public import Foundation
import Glibc

/// A program as a child process, whose output is read line by line.
///
/// Waiting never blocks a thread, because the tests share a pool of as many threads as there are processors.
public final class Program {
    public struct Failure: Error, CustomStringConvertible {
        public var description: String

        public init(description: String) {
            self.description = description
        }
    }

    /// How long the program may take for any one answer.
    public static let patience = Duration.seconds(600)

    private let process = Process()
    private let input: Pipe
    private let output: Pipe
    private var pending = Data()
    private let errorFile: URL
    private let errors: FileHandle

    public init(_ executable: URL, _ arguments: [String], environment: [String: String]? = nil) throws {
        self.errorFile = FileManager.default.temporaryDirectory.appending(path: "stderr-\(UUID().uuidString)")
        try Data().write(to: self.errorFile)
        self.errors = try FileHandle(forWritingTo: self.errorFile)
        self.process.executableURL = executable
        self.process.arguments = arguments
        if let environment {
            self.process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        }
        self.process.standardError = self.errors
        _ = Self.signalsOfAShell
        (self.input, self.output) = try Self.start(self.process)
        let descriptor = self.output.fileHandleForReading.fileDescriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    /// Foundation makes the program the head of a process group, so the program's children end with it.
    deinit {
        if self.process.isRunning { kill(-self.process.processIdentifier, SIGKILL) }
        // Foundation keeps a process's handles longer than the process, so a thousand runs would use up the
        // descriptors.
        for handle in [
            self.input.fileHandleForReading, self.input.fileHandleForWriting,
            self.output.fileHandleForReading, self.output.fileHandleForWriting, self.errors,
        ] {
            try? handle.close()
        }
        try? FileManager.default.removeItem(at: self.errorFile)
    }

    /// A shell starts its jobs in the background, and thereby `swift test &`, with these signals ignored. A child would
    /// inherit that, and would go on when a test interrupts it.
    static let signalsOfAShell: Void = {
        Glibc.signal(SIGINT, SIG_DFL)
        Glibc.signal(SIGQUIT, SIG_DFL)
    }()

    /// Held while a program starts. A program inherits what another thread opens between Foundation's look at the open
    /// descriptors and the fork: another program's pipes, so that these have no end, and the socket at whose end
    /// Foundation takes that other program for ended. Both would then last as long as the program that inherited them.
    private static let starting = NSLock()

    /// Starts a process with pipes for its input and output.
    public static func start(_ process: Process) throws -> (input: Pipe, output: Pipe) {
        try Self.alone {
            let (input, output) = (Pipe(), Pipe())
            process.standardInput = input
            process.standardOutput = output
            try Self.withoutBlockedSignals { try process.run() }
            return (input, output)
        }
    }

    /// Makes descriptors and a process that inherits them, while no other program starts.
    public static func alone<Result>(_ start: () throws -> Result) rethrows -> Result {
        Self.starting.lock()
        defer { Self.starting.unlock() }
        return try start()
    }

    /// Dispatch's threads block most signals, and a child inherits that. A shell would then wait for its SIGCHLD for
    /// ever.
    private static func withoutBlockedSignals(_ body: () throws -> Void) rethrows {
        var none = sigset_t()
        var before = sigset_t()
        unsafe sigemptyset(&none)
        unsafe pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
        try body()
    }

    public var pid: pid_t { self.process.processIdentifier }
    public var isRunning: Bool { self.process.isRunning }

    public var errorText: String {
        let data = (try? Data(contentsOf: self.errorFile)) ?? Data()
        return String(decoding: data, as: UTF8.self)
    }

    /// The next line of standard output without its end; `nil` at the end of the output.
    public func line() async throws -> Data? {
        let deadline = ContinuousClock.now + Self.patience
        var searched = 0
        while true {
            if let end = self.pending[(self.pending.startIndex + searched)...].firstIndex(of: UInt8(ascii: "\n")) {
                let line = self.pending[..<end]
                self.pending = Data(self.pending[(end + 1)...])
                return Data(line)
            }
            searched = self.pending.count
            switch self.readSome() {
            case .some(0):
                defer { self.pending = Data() }
                return self.pending.isEmpty ? nil : self.pending
            case .some: continue
            case nil:
                guard ContinuousClock.now < deadline else {
                    throw Failure(description: "\(self.name): no output in time")
                }
                try await Task.sleep(for: .milliseconds(2))
            }
        }
    }

    /// The rest of standard output.
    public func rest() async throws -> Data {
        var text = Data()
        while let line = try await self.line() {
            text += line
            text.append(UInt8(ascii: "\n"))
        }
        return text
    }

    /// - Returns: How many bytes came; 0 at the end; `nil` where there is nothing yet.
    private func readSome() -> Int? {
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        let count = unsafe read(self.output.fileHandleForReading.fileDescriptor, &chunk, chunk.count)
        guard count >= 0 else { return nil }
        self.pending.append(contentsOf: chunk[..<count])
        return count
    }

    public func writeLine(_ line: String = "") throws {
        try self.input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
    }

    public func closeInput() {
        try? self.input.fileHandleForWriting.close()
    }

    public func signal(_ number: Int32) {
        kill(self.process.processIdentifier, number)
    }

    /// A field of every thread's status (proc_pid_status(5)).
    public func threads(_ field: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(self.pid)/task").compactMap { task in
            // A thread may have ended in the meantime.
            let status = try? String(contentsOfFile: "/proc/\(self.pid)/task/\(task)/status", encoding: .utf8)
            let line = status?.split(separator: "\n").first { $0.hasPrefix(field + ":") }
            return line.map { $0.dropFirst(field.count + 1).trimmingCharacters(in: .whitespaces) }
        }
    }

    /// Sends SIGSTOP, and waits until the program stands still. Each thread stops on its own, and goes on until then.
    public func halt() async throws {
        self.signal(SIGSTOP)
        let states = try await look(every: .milliseconds(10), until: { $0.allSatisfy { $0.hasPrefix("T") } }) {
            try self.threads("State")
        }
        guard states.allSatisfy({ $0.hasPrefix("T") }) else {
            throw Failure(description: "\(self.name) does not stop: \(states)")
        }
    }

    /// - Returns: The exit code, or 128 + the number of the signal that ended the program, as in a shell.
    @discardableResult
    public func exit(within time: Duration = Program.patience) async throws -> Int32 {
        let deadline = ContinuousClock.now + time
        while self.process.isRunning {
            guard ContinuousClock.now < deadline else {
                throw Failure(description: "\(self.name): did not exit in time")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
        let status = self.process.terminationStatus
        return self.process.terminationReason == .uncaughtSignal ? 128 + status : status
    }

    private var name: String { self.process.executableURL?.lastPathComponent ?? "program" }

    /// Runs a program to its end.
    public static func run(
        _ executable: URL,
        _ arguments: [String],
        environment: [String: String]? = nil,
        input: String? = nil
    ) async throws -> (code: Int32, output: Data, error: String) {
        let program = try Program(executable, arguments, environment: environment)
        if let input {
            try program.writeLine(input)
            program.closeInput()
        }
        let output = try await program.rest()
        let code = try await program.exit()
        return (code, output, program.errorText)
    }
}
