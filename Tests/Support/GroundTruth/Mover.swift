public import Foundation
public import TestSupport
public import TrafficModel

/// A program that moves bytes as it is told, and says after each command what its calls have returned so far.
public final class Mover {
    private static let program = """
        import encodings.idna, os, resource, select, socket, sys
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        user = int(os.environ.get("MOVER_USER", "0"))
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        sent = received = 0
        held = []
        def connect():
            client = socket.create_connection(listener.getsockname())
            return client, listener.accept()[0]
        def move(pair, size):
            global sent, received
            pair[0].sendall(bytes(size))
            sent += size
            while size > 0:
                got = len(pair[1].recv(65536))
                received += got
                size -= got
        def end(pair):
            for half in pair: half.close()
        for line in sys.stdin:
            word, number, size = line.split()
            number, size = int(number), int(size)
            if word == "churn":
                for _ in range(number):
                    pair = connect()
                    move(pair, size)
                    end(pair)
            elif word == "hold":
                for _ in range(number): held.append(connect())
            elif word == "use":
                for pair in held[:number]: move(pair, size)
            elif word == "drop":
                for pair in held[:number]: end(pair)
                del held[:number]
            elif word == "datagrams":
                pair = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                pair[1].bind(("127.0.0.1", 0))
                for _ in range(number):
                    sent += pair[0].sendto(bytes(size), pair[1].getsockname())
                    received += len(pair[1].recv(65536))
                end(pair)
            elif word == "keep":
                print(sent, received, flush=True)
                while not select.select([sys.stdin], [], [], 0.2)[0]:
                    pair = connect()
                    move(pair, size)
                    end(pair)
            elif word == "share":
                pair = connect()
                for _ in range(number):
                    reading, writing = os.pipe()
                    child = os.fork()
                    if child == 0:
                        sent = received = 0
                        move(pair, size)
                        os.write(writing, b"%d %d" % (sent, received))
                        os._exit(0)
                    os.waitpid(child, 0)
                    more = os.read(reading, 100).split()
                    sent += int(more[0])
                    received += int(more[1])
                    os.close(reading)
                    os.close(writing)
                end(pair)
            print(sent, received, flush=True)
        """

    public let name: String
    private let folder = FileManager.default.temporaryDirectory.appending(path: "mover-\(UUID().uuidString)")
    private let running: Program
    public private(set) var moved = PayloadBytes()

    /// - Parameters:
    ///   - name: Of the program's file; the kernel knows its first 15 bytes. `nil`: one that no other program has.
    ///   - user: As whom the program runs; `nil`: as this process.
    ///   - launcher: A program and its arguments that start the mover, such as `ip netns exec NAME`.
    public init(
        name: String? = nil,
        user: UInt32? = nil,
        launcher: (program: URL, arguments: [String])? = nil
    ) throws {
        self.name = name ?? "mv-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let link = self.folder.appending(path: self.name)
        try FileManager.default.createSymbolicLink(
            atPath: link.path,
            withDestinationPath: URL(filePath: "/usr/bin/python3").resolvingSymlinksInPath().path
        )
        self.running = try Program(
            launcher?.program ?? link,
            (launcher.map { $0.arguments + [link.path] } ?? []) + ["-c", Self.program],
            environment: user.map { ["MOVER_USER": "\($0)"] }
        )
    }

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    /// Of the process itself, unless a launcher started it.
    public var pid: pid_t { self.running.pid }

    public func tell(_ command: String) async throws {
        try self.running.writeLine(command)
        try await self.hear()
    }

    /// Moves so many bytes five times a second, each time over another connection, until ``rest()``.
    public func keepMoving(_ size: Int) async throws {
        try await self.tell("keep 1 \(size)")
    }

    public func rest() async throws {
        try self.running.writeLine("churn 0 0")
        for _ in ["keep", "churn"] { try await self.hear() }
    }

    private func hear() async throws {
        guard let line = try await self.running.line() else {
            throw Program.Failure(description: self.running.errorText)
        }
        let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { UInt64($0) }
        guard numbers.count == 2 else { throw Program.Failure(description: self.running.errorText) }
        self.moved = PayloadBytes(sent: numbers[0], received: numbers[1])
    }

    /// Tells the program to do something.
    public func tellAnything(_ random: inout Seeded) async throws {
        let size = Int.random(in: 1...3_000, using: &random)
        let command =
            switch Int.random(in: 0..<6, using: &random) {
            case 0: "churn \(Int.random(in: 1...150, using: &random))"
            case 1: "hold \(Int.random(in: 1...40, using: &random))"
            case 2: "use \(Int.random(in: 1...40, using: &random))"
            case 3: "drop \(Int.random(in: 1...40, using: &random))"
            case 4: "datagrams \(Int.random(in: 1...50, using: &random))"
            default: "share \(Int.random(in: 1...5, using: &random))"
            }
        try await self.tell("\(command) \(size)")
    }
}

extension Snapshot {
    /// What the daemon says that the program and its children moved.
    public func payload(of mover: Mover) -> PayloadBytes { self.bytes(of: mover).payload }

    public func bytes(of mover: Mover) -> ByteCounts {
        let listed = (self.processes ?? []).filter { $0.details.name == mover.name }
        let ended = (self.exited ?? []).filter { $0.group.name == mover.name }
        return (listed.map(\.bytes) + ended.map(\.bytes)).reduce(ByteCounts(), +)
    }
}
