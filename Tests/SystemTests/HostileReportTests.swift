import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// An honest server reports while another user's processes send as many records as they can.
    @Suite(.needsBPF, .needs("python3"))
    struct HostileReportTests {
        /// Two sockets each. If all end between two drains, the user's part of the ring still has room for them.
        private static let connections = 400
        private static let exchangesOfConnection = 20

        /// Not root: tests in other processes fill root's part of the ring.
        private static let honestUser = 54_323

        /// What every sender of these tests needs: a record, and a socket, so that the kernel counts for the process.
        private static let prelude = """
            import collections, os, socket, struct, sys, time
            import encodings.idna  # which other users may not be able to read
            def record(kind, role, content):
                length = 4 + len(content)
                return struct.pack("<BBH", kind, role, length + -length % 8) + content + bytes(-length % 8)
            def name(host, route):
                texts = (b"GET", host, route)
                return record(1, 0, struct.pack("<HHH", *map(len, texts)) + b"".join(texts))
            def message(start, length, status):
                return struct.pack("<QII II HHHHH H BBBB", start, length, length - 60, 0, 0, 0, 0, 20, 40, 0,
                    status, 11, 1, 2, 2)
            def exchange_record(parts, index, exchange, cookie, content):
                now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                return record(2, 2, struct.pack("<HHQQQ", parts, index, exchange, cookie, now) + content)
            def datagram(number, records):
                return b"TRFC" + struct.pack("<BBHIIQ", 1, 24, len(records), number, 0, 0) + b"".join(records)
            def become(uid):
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            path = sys.argv[1]
            reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

            """

        /// Reports as the library does: sends without waiting what has waited for a tenth of a second or fills a
        /// datagram, and keeps for the next time what finds no room.
        private static let honest = """
            connections, exchanges = int(sys.argv[2]), int(sys.argv[3])
            become(int(sys.argv[4]))
            listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            child = os.fork()
            if child == 0:
                for _ in range(connections):
                    with socket.create_connection(listener.getsockname()) as client:
                        for _ in range(exchanges):
                            client.sendall(bytes(100))
                            left = 200
                            while left: left -= len(client.recv(left))
                        client.shutdown(socket.SHUT_WR)
                        client.recv(1)
                os._exit(0)
            reports.setblocking(False)
            call = name(b"honest.example", b"/items/{id}")
            outcome = struct.pack("<Q III HBx", 1000000, *[2**32 - 1] * 3, 200, 1)
            waiting, gathered, number, exchange, due = collections.deque(), [], 0, 0, time.monotonic() + 0.1
            def flush():
                global gathered, number, due
                due = time.monotonic() + 0.1
                if gathered: waiting.append(datagram(number, [call] + gathered))
                number, gathered = number + (1 if gathered else 0), []
                while waiting:
                    try: reports.sendto(waiting[0], path)
                    except BlockingIOError: return
                    waiting.popleft()
            for connection in range(connections):
                server, _ = listener.accept()
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                cookie = struct.unpack("<Q", server.getsockopt(socket.SOL_SOCKET, 57, 8))[0]
                for index in range(exchanges):
                    left = 100
                    while left: left -= len(server.recv(left))
                    server.sendall(bytes(200))
                    exchange += 1
                    parts = message(index * 100, 100, 0) + message(index * 200, 200, 200) + outcome
                    gathered.append(exchange_record(7, 0, exchange, cookie, parts))
                    if len(gathered) >= 240 or time.monotonic() > due: flush()
                server.recv(1)
                if connection == 0:
                    flush()
                    print("ready", flush=True)
                    sys.stdin.readline()
                server.close()
            while gathered or waiting:
                flush()
                time.sleep(0.1)
            os.waitpid(child, 0)
            print(exchange, flush=True)
            sys.stdin.read()
            """

        /// Reports of its first connection at once, and of the second when told.
        private static let late = """
            listener = socket.create_server(("127.0.0.1", 0))
            call = name(b"late.example", b"/items/{id}")
            outcome = struct.pack("<Q III HBx", 1000000, *[2**32 - 1] * 3, 200, 1)
            def report(exchange, cookie):
                parts = message(0, 100, 0) + message(0, 200, 200) + outcome
                reports.sendto(datagram(exchange, [call, exchange_record(7, 0, exchange, cookie, parts)]), path)
            for exchange in 1, 2:
                with socket.create_connection(listener.getsockname()) as client:
                    server, _ = listener.accept()
                    cookie = struct.unpack("<Q", server.getsockopt(socket.SOL_SOCKET, 57, 8))[0]
                    client.sendall(bytes(100))
                    left = 100
                    while left: left -= len(server.recv(left))
                    server.sendall(bytes(200))
                    left = 200
                    while left: left -= len(client.recv(left))
                    # The daemon hears of the process while its first connection is open.
                    if exchange == 1: report(exchange, cookie)
                    server.close()
                print(cookie, flush=True)
                sys.stdin.readline()
                if exchange == 2: report(exchange, cookie)
            sys.stdin.read()
            """

        @Test("a report that comes after its socket has left the list counts")
        func lateReport() async throws {
            #expect(try await eventually(every: .zero) { try await self.reportsLate() })
        }

        /// - Returns: `false`: the report came so late that it does not count. This happens on a busy machine only.
        private func reportsLate() async throws -> Bool {
            try await withDaemon { daemon in
                let server = try self.start(Self.late, daemon)
                for count in 1...2 as ClosedRange<UInt64> {
                    // Before the connection.
                    let began = ContinuousClock.now
                    if count == 2 { try server.writeLine() }
                    let line = try #require(try await server.line(), "\(server.errorText)")
                    let cookie = try #require(UInt64(String(decoding: line, as: UTF8.self)))
                    if count == 2 {
                        let hasLeft = { (snapshot: Snapshot) in
                            let process = snapshot.processes?.first { $0.identity.pid == server.pid }
                            return process?.bytes.payload.total == count * 600
                                && snapshot.sockets?.contains { $0.cookie.rawValue == cookie } == false
                        }
                        #expect(hasLeft(try await look(until: hasLeft) { try await daemon.snapshot() }))
                        try server.writeLine()
                    }
                    let snapshot = try await look(
                        until: { $0.capture.reports.joined + $0.capture.reports.late == 2 * count }
                    ) {
                        try await daemon.snapshot()
                    }
                    // Until a minute after the close, a report must count (`Ledger.Retention`).
                    let isTooLate = ContinuousClock.now - began > .seconds(60)
                    if count == 2, isTooLate, snapshot.capture.reports.late == 2 { return false }
                    #expect(snapshot.capture.reports.joined == 2 * count, "\(snapshot.capture.reports)")
                    let process = try #require(snapshot.processes?.first { $0.identity.pid == server.pid })
                    #expect(process.explained == count * 300)
                    #expect(snapshot.endpoints?.first { $0.host == "late.example" }?.requests == count)
                }
                return true
            }
        }

        /// Claims sockets that do not exist, as fast as the daemon takes the datagrams, as user nobody, until it is killed.
        private static let flooder = """
            become(65534)
            own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            own.bind(("127.0.0.1", 0))
            own.sendto(b"x", own.getsockname())
            own.recv(1)
            made = []
            for first in range(200):
                names = [name(b"h%d" % first, b"/%d" % (first * 240 + index)) for index in range(240)]
                records = names + [exchange_record(2, index, 1 + first * 240 + index, 2**60 + index,
                    message(index * 100, 100, 200)) for index in range(240)]
                made.append(datagram(first, records))
            print("ready", flush=True)
            sys.stdin.readline()
            while True:
                for datagram in made: reports.sendto(datagram, path)
            """

        /// At each step waits for a line, and says what was done.
        private static let strangers = """
            def step(*said):
                print(*said, flush=True)
                sys.stdin.readline()
            def use_a_socket():
                with socket.create_server(("127.0.0.1", 0)) as listener:
                    client = socket.create_connection(listener.getsockname())
                    server, _ = listener.accept()
                client.sendall(bytes(200))
                left = 200
                while left: left -= len(server.recv(left))
                server.shutdown(socket.SHUT_WR)
                return client, server, struct.unpack("<Q", server.getsockopt(socket.SOL_SOCKET, 57, 8))[0]
            def report(exchange, cookie, host, first=0):
                call = name(host, b"/items/{id}")
                parts = message(first, 100, 0)
                reports.sendto(datagram(exchange, [call, exchange_record(1, 0, exchange, cookie, parts)]), path)

            # A daemon that connects as root, runs as another user from then on, and reports.
            child = os.fork()
            if child == 0:
                kept = use_a_socket()
                become(5003)
                report(1, kept[2], b"dropped.example")
                step("dropped", os.getpid())
                os._exit(0)
            os.waitpid(child, 0)
            # A process that is gone before the daemon reads its report.
            cookies, cookie = os.pipe()
            child = os.fork()
            if child == 0:
                become(5001)
                kept = use_a_socket()
                os.write(cookie, b"%d" % kept[2])
                step("victim", os.getpid())
                report(1, kept[2], b"victim.example")
                os._exit(0)
            os.waitpid(child, 0)
            step("gone", child)
            # Another user's process with its pid, which other programs of this machine may take first.
            stolen, sent = int(os.read(cookies, 20)), False
            with open("/proc/sys/kernel/ns_last_pid") as last: before = last.read()
            for _ in range(2000):
                with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(str(child - 1))
                other = os.fork()
                # Or other tests' programs would have the pids of programs that have just ended.
                if other:
                    with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(before)
                if other == 0:
                    if os.getpid() != child: os._exit(1)
                    become(5002)
                    report(2, stolen, b"evil.example", 100)
                    if sys.argv[2] == "stays": step("stays")
                    os._exit(0)
                if os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0:
                    sent = True
                    break
            step("sent" if sent else "failed")
            """

        @Test(
            "a process reports in its own name whatever user it becomes, and nobody else does who gets its pid",
            .enabled(
                if: FileManager.default.isWritableFile(atPath: "/proc/sys/kernel/ns_last_pid"),
                "this kernel lets nobody choose a pid (CONFIG_CHECKPOINT_RESTORE)"
            ),
            arguments: ["leaves", "stays"]
        )
        func anotherName(_ other: String) async throws {
            // The daemon may read a report long after the socket has closed and the process has ended.
            try await withDaemon(arguments: ["--keep-closed", "600", "--keep-exited", "86400"]) { daemon in
                let program = try self.start(Self.strangers, daemon, [other])
                func step() async throws -> [Substring] {
                    let line = try #require(try await program.line(), "\(program.errorText)")
                    return String(decoding: line, as: UTF8.self).split(separator: " ")
                }
                func look(until isDone: (Snapshot) -> Bool) async throws -> Snapshot {
                    try await TestSupport.look(until: isDone) { try await daemon.snapshot() }
                }
                #expect(try await step().first == "dropped")
                #expect(try await look(until: { $0.capture.reports.joined == 1 }).capture.reports.joined == 1)
                try program.writeLine()

                let victim = try await step()
                let pid = try #require(victim.last.flatMap { Int32($0) })
                try #require(victim.first == "victim", "\(program.errorText)")
                let row = { (snapshot: Snapshot) in snapshot.processes?.first { $0.identity.pid == pid } }
                _ = try await look { row($0)?.bytes.payload.total == 400 }
                try await daemon.program.halt()
                try program.writeLine()
                #expect(try await step() == ["gone", "\(pid)"])
                daemon.program.signal(SIGCONT)
                #expect(row(try await look { row($0)?.explained == 100 })?.explained == 100)

                // Where the other process leaves, the daemon reads its report too late to find it.
                if other == "leaves" { try await daemon.program.halt() }
                try program.writeLine()
                let said = try await step()
                daemon.program.signal(SIGCONT)
                guard said != ["failed"] else { try Test.cancel("no other process got the pid \(pid)") }
                let snapshot = try await look { $0.capture.reports.datagrams == 3 }
                let reports = snapshot.capture.reports
                #expect(reports.datagrams == 3 && reports.unknownProcess == 1 && reports.joined == 2, "\(reports)")
                #expect(row(snapshot)?.bytes.payload.total == 400 && row(snapshot)?.explained == 100)
                let hosts = snapshot.endpoints?.compactMap(\.host).sorted()
                #expect(hosts == ["dropped.example", "victim.example"])
            }
        }

        private func start(_ script: String, _ daemon: Daemon, _ arguments: [String] = []) throws -> Program {
            try Program(
                try #require(Machine.path(of: "python3")),
                ["-c", Self.prelude + script, daemon.directories.reportSocket.path] + arguments
            )
        }

        @Test("two flooders of another user cost an honest server no byte, and their own excess is counted")
        func flood() async throws {
            try await withDaemon { daemon in
                let flooders = try (0..<2).map { _ in try self.start(Self.flooder, daemon) }
                for flooder in flooders {
                    #expect(try await flooder.line() == Data("ready".utf8), "\(flooder.errorText)")
                }
                let honest = try self.start(
                    Self.honest,
                    daemon,
                    ["\(Self.connections)", "\(Self.exchangesOfConnection)", "\(Self.honestUser)"]
                )
                #expect(try await honest.line() == Data("ready".utf8), "\(honest.errorText)")
                // A process's first records wait until the daemon knows its name. With a flood on a slow machine that
                // takes two rounds.
                #expect(try await eventually { try await daemon.snapshot().endpoints?.isEmpty == false })
                for flooder in flooders { try flooder.writeLine() }
                // The daemon counts what exceeds the flooders' limits: claims that could not wait, and datagrams.
                let isBeyondLimits = { (reports: ReportCounters) in
                    reports.late > 0 && reports.unwaited > 0 && reports.droppedDatagrams > 0
                }
                let flooded = try await look(until: isBeyondLimits) { try await daemon.snapshot().capture.reports }
                #expect(isBeyondLimits(flooded), "\(flooded)")
                try honest.writeLine()
                let exchanges = UInt64(Self.connections * Self.exchangesOfConnection)
                #expect(try await honest.line() == Data("\(exchanges)".utf8), "\(honest.errorText)")
                for flooder in flooders { flooder.signal(SIGKILL) }
                // The daemon settles earlier records in the next rounds.
                let snapshot = try await look(until: { $0.capture.reports.joined >= 2 * exchanges }) {
                    try await daemon.snapshot()
                }

                let process = try #require(snapshot.processes?.first { $0.identity.pid == honest.pid })
                #expect(process.bytes.payload.total == exchanges * 300)
                #expect(process.unattributed == 0 && process.explained == exchanges * 300)
                let endpoint = try #require(snapshot.endpoints?.first { $0.host == "honest.example" })
                #expect(endpoint.requests == exchanges && endpoint.responses == exchanges)
                #expect(endpoint.outcomes == [.ok: exchanges] && endpoint.quality == .exact)
                #expect(snapshot.capture.reports.joined == 2 * exchanges, "\(snapshot.capture.reports)")
                let reports = snapshot.capture.reports
                #expect(reports.impossible == 0 && reports.foreign == 0 && reports.overlapping == 0)
            }
        }
    }
}
