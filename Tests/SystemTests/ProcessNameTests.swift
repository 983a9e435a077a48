import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// Whose name bytes bear, beside what the programs say that they moved.
    @Suite(.needsBPF, .needs("python3", "ip", "tc"))
    struct ProcessNameTests {
        private static let prelude = """
            import ctypes, os, socket, sys
            def name(text): ctypes.CDLL(None).prctl(15, text.encode(), 0, 0, 0)  # PR_SET_NAME
            def send(count):
                listener = socket.create_server(("127.0.0.1", 0))
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                sent, received = client.send(bytes(count)), 0
                while received < sent: received += len(server.recv(65536))
                return sent

            """

        @Test("a program that names itself, sends and ends at once has that name, each time")
        func atOnce() async throws {
            let name = "own-\(UUID().uuidString.prefix(8))"
            let python = try #require(Machine.path(of: "python3"))
            try await withDaemon { daemon in
                var pids: [Int32: UInt64] = [:]
                for _ in 0..<10 {
                    let script =
                        Self.prelude + "name('\(name)'); print(os.getpid(), send(5000), flush=True); os._exit(0)"
                    let said = String(decoding: try await Program.run(python, ["-c", script]).output, as: UTF8.self)
                    let numbers = said.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
                    try #require(numbers.count == 2)
                    pids[Int32(numbers[0])] = numbers[1]
                }
                let rows = try await look(until: { $0.count == 10 }) {
                    try await daemon.snapshot().processes?.filter { pids[$0.identity.pid] != nil } ?? []
                }
                #expect(rows.allSatisfy { $0.details.name == name && $0.bytes.payload.sent == pids[$0.identity.pid] })
            }
        }

        @Test(
            "a program that names itself anew between two connections stays one program, while it lives and afterwards"
        )
        func between() async throws {
            let names = (1...2).map { "n\($0)-\(UUID().uuidString.prefix(8))" }
            let script =
                Self.prelude + """
                    name('\(names[0])'); first = send(1000)
                    name('\(names[1])'); print(first + send(2000), flush=True)
                    sys.stdin.read()
                    """
            try await withDaemon(arguments: ["--keep-exited", "0"]) { daemon in
                let program = try Program(try #require(Machine.path(of: "python3")), ["-c", script])
                let line = try #require(try await program.line(), "\(program.errorText)")
                let sent = try #require(UInt64(String(decoding: line, as: UTF8.self)))
                let row = try await look(until: { $0?.bytes.payload.sent == sent }) {
                    try await daemon.snapshot().processes?.first { $0.identity.pid == program.pid }
                }
                #expect(row?.details.name == names[0])
                program.closeInput()
                #expect(try await program.exit() == 0)
                let gone = try await look(until: { !$0.isEmpty }) {
                    try await daemon.snapshot().exited?.filter { names.contains($0.group.name) } ?? []
                }
                #expect(gone.map(\.group.name) == [names[0]] && gone.map(\.bytes.payload.sent) == [sent])
            }
        }

        @Test("a process that ends while the kernel still sends its bytes has its row with these bytes all the time")
        func unsent() async throws {
            try await NetworkNamespace.with { namespace in
                // Some minutes for what the program sends; the test waits for none of it.
                try await namespace.run(
                    "tc",
                    "qdisc",
                    "add",
                    "dev",
                    "lo",
                    "root",
                    "tbf",
                    "rate",
                    "64kbit",
                    "burst",
                    "16kb",
                    "limit",
                    "1mb"
                )
                let script = """
                    import os, socket, sys
                    listener = socket.create_server(("127.0.0.1", 0))
                    if os.fork():
                        server, _ = listener.accept()
                        sys.stdin.read()
                        os._exit(0)
                    client = socket.socket()
                    client.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
                    client.connect(listener.getsockname())
                    print(os.getpid(), client.getsockname()[1], client.send(bytes(1000000)), flush=True)
                    os._exit(0)
                    """
                try await withDaemon { daemon in
                    let launcher = try namespace.launcher()
                    let program = try Program(launcher.program, launcher.arguments + ["python3", "-c", script])
                    let line = try #require(try await program.line(), "\(program.errorText)")
                    let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { UInt64($0) }
                    try #require(numbers.count == 3 && numbers[2] == 1_000_000)
                    let snapshot = try await look(until: { snapshot in
                        snapshot.processes?.contains { $0.identity.pid == numbers[0] && $0.state == .exited } == true
                    }) { try await daemon.snapshot() }
                    let row = snapshot.processes?.first { $0.identity.pid == numbers[0] }
                    #expect(row?.bytes.payload.sent == numbers[2] && row?.socketsOpen == 0 && row?.exitedAt != nil)
                    // The kernel has the socket still, and nobody holds it.
                    let socket = snapshot.sockets?.first { $0.local.port == numbers[1] }
                    #expect(socket?.closedAt == nil && socket?.owners.map(\.isFormer) == [true])
                    program.closeInput()
                    #expect(try await program.exit() == 0)
                }
            }
        }
    }
}
