import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension ScenarioTests {
    /// The method `lifecycle`, which has no program on the path of a call or a packet. Tolerance: 0 bytes.
    @Suite(.needsBPF, .needs("python3"))
    struct LifecycleTests {
        private static let method = CaptureMethod.lifecycle.rawValue

        /// No process's row may leave the list between two looks at it.
        private static let keeping = ["--keep-exited", "86400"]

        /// Scenarios that use nothing but TCP, and where one process owns each socket.
        private static let scenarios = [
            "tcp", "tcp-unread", "tcp-requests", "tcp-nonblocking", "tcp-waitall", "writev", "tcp-peek", "tcp-trunc",
            "tcp-oob", "tcp-cork", "tcp-zero-window", "mapped", "reset", "abort", "reset-both-ways", "connect-reuse",
            "tfo",
            "half-close", "killed", "ktls-asked", "tcp-zerocopy", "tcp-zerocopy-receive", "sendfile",
            "sendfile-nonblocking",
            "splice-out", "splice-in", "threads", "prefork", "prefork-reuseport", "pid-reuse", "leader-exits", "exec",
            "io-uring", "io-uring-multishot", "io-uring-fixed", "short-lived", "churn", "many-connections", "idle",
        ]

        /// The kernel's events at the beginnings and ends of TCP sockets.
        private static let lifeEvents = ["sock/inet_sock_set_state", "tcp/tcp_destroy_sock"]

        /// Runs of a scenario, at most, while other programs may have taken a connection (``mayBeTaken(_:)``).
        private static let mostRuns = 5

        @Test("every byte of TCP is counted, at its socket and at its process", arguments: Self.scenarios)
        func scenario(_ name: String) async throws {
            for run in 1...Self.mostRuns {
                let trace = Machine.hidesProcess1 ? EventsOfProcessOne(Self.lifeEvents) : nil
                let (check, others, loss) = try await withDaemon(
                    method: Self.method,
                    arguments: Self.keeping
                ) { daemon in
                    let check = try await AccuracyCheck.run(name, daemon: daemon, programs: Machine.programs)
                    let loss = try await daemon.latestSnapshot().capture.loss
                    return (check, try await Self.looking(daemon), loss)
                }
                let unseen = Unseen(hidden: trace?.stop() ?? [], loss: loss)
                if unseen.most > 0 { print("\(name): \(unseen.hidden.count) hidden, \(loss.missedRuns) missed") }
                guard run < Self.mostRuns, let taken = Self.mayBeTaken(check, others, unseen) else {
                    return try expectExact(check)
                }
                print("\(name), run \(run), is repeated: \(report(taken)); other programs have: \(others)")
            }
        }

        /// Other programs may look at all open files meanwhile: daemons of other tests where the kernel refuses to list
        /// sockets, captures of this process, bpftool. They hold each file for that moment. If the generator closes its
        /// connection then, the kernel ends the connection for the one that looks, and `lifecycle`, which sees no calls,
        /// counts it for that one.
        ///
        /// - Parameter unseen: As ``Unseen``.
        /// - Returns: The differences, if processes have less than they moved, and nothing else is wrong, but for losses where
        ///   the kernel says that it ran no program. Such programs must have what is missing, or it must be as little as a
        ///   few of many connections.
        private static func mayBeTaken(
            _ check: AccuracyCheck,
            _ others: [String: UInt64],
            _ unseen: Unseen
        ) -> [Difference]? {
            guard case .compared(let bytes, let off, let differences, _) = check.outcome, !differences.isEmpty
            else { return nil }
            if Self.areOfUnseenEnds(differences, unseen) { return differences }
            guard others.values.reduce(0, +) >= off || off <= bytes / 500 else { return nil }
            let isTaken = differences.allSatisfy { difference in
                if difference.subject.hasSuffix("loss") { return unseen.explainsLoss }
                // Of a socket that is still listed, the one that looked is an owner.
                if difference.subject.hasSuffix(", a stranger") { return true }
                let subject = difference.subject
                guard subject.contains("process ") || subject.contains(" owner "),
                    let expected = UInt64(difference.expected), let actual = UInt64(difference.actual)
                else { return false }
                return actual < expected
            }
            return isTaken ? differences : nil
        }

        /// What the kernel says of beginnings and ends of TCP sockets for which it ran no program.
        private struct Unseen {
            /// Its trace of those while process 1 ran. Empty without tracefs, where a loss is then never excused.
            let hidden: [String]
            let loss: CaptureLoss

            /// How many programs the kernel did not run, at most.
            var most: UInt64 { UInt64(self.hidden.count) + self.loss.missedRuns }

            /// A connection without a beginning counts as lost (`map_full`), twice: a program and its twin come to its end.
            /// Without the change to its last state, its last record lacks what it sent, and so is behind the one before
            /// (`counters_backwards`).
            var explainsLoss: Bool {
                self.loss.recordsMalformed == 0 && self.loss.mapFull / 2 + self.loss.countersBackwards <= self.most
            }
        }

        /// A kernel that runs no program while process 1 runs may make an end of a connection just then. `lifecycle`, which
        /// sees no calls, then finds that end among the open files, and counts nothing of what it moved before.
        ///
        /// - Returns: Whether nothing at all is counted of some sockets, the kernel says of each that it ran no program, and
        ///   besides only processes lack bytes.
        private static func areOfUnseenEnds(_ differences: [Difference], _ unseen: Unseen) -> Bool {
            var ends = 0
            let areOfEnds = differences.allSatisfy { difference in
                let subject = difference.subject
                guard let expected = UInt64(difference.expected), let actual = UInt64(difference.actual) else {
                    return false
                }
                if subject.contains("] process ") { return actual < expected }
                guard actual == 0, let match = subject.firstMatch(of: /socket \d+ \(tcp \S+:(\d+) \S+:(\d+)\)/)
                else { return false }
                ends += 1
                return unseen.loss.missedRuns > 0
                    || unseen.hidden.contains { $0.contains("sport=\(match.1) dport=\(match.2) ") }
            }
            return areOfEnds && ends > 0
        }

        /// The payload of programs that look at all open files.
        private static func looking(_ daemon: Daemon) async throws -> [String: UInt64] {
            let names = ["trafficd", "bpftool"]  // the name of this process begins as that of a daemon
            let rows = try await daemon.snapshot().processes?.filter { process in
                process.bytes.payload.total > 0 && names.contains { process.details.name.hasPrefix($0) }
            }
            return (rows ?? []).reduce(into: [:]) {
                $0["\($1.details.name) \($1.identity.pid)", default: 0] += $1.bytes.payload.total
            }
        }

        @Test("a daemon that starts during a transfer has exactly what came later", arguments: ["tcp", "tcp-unread"])
        func startInTheMiddle(_ name: String) async throws {
            let (check, daemon) = try await AccuracyCheck.runFromTheMiddle(name, programs: Machine.programs) {
                try await Daemon(Machine.programs, method: Self.method, arguments: Self.keeping)
            }
            try await finish(daemon)
            try expectExact(check)
        }

        /// A connection with itself whose descriptors a forked child holds too. Prints the ports, and ends with its input.
        private static let sharing = """
            import os, socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
            client.sendall(bytes(70_000))
            left = 70_000
            while left: left -= len(server.recv(left))
            child = os.fork()
            if child: print(client.getsockname()[1], server.getsockname()[1], flush=True)
            sys.stdin.read()
            """

        @Test(
            "a socket that two processes hold has every byte, counted for one of them, and says that this is inferred"
        )
        func shared() async throws {
            let python = try #require(Machine.path(of: "python3"))
            try await withDaemon(method: Self.method) { daemon in
                let program = try Program(python, ["-c", Self.sharing])
                let ports = String(decoding: try #require(try await program.line()), as: UTF8.self).split(
                    separator: " "
                )
                let (client, server) = (UInt16(ports[0]), UInt16(ports[1]))
                // The daemon learns it from a walk through all open files, and rests after each.
                let sockets = try await look(until: { $0.count { $0.ownersInferred == true } == 2 }) {
                    try await daemon.snapshot().sockets?.filter { socket in
                        socket.state == .established
                            && Set([socket.local.port, socket.remote.port]) == Set([client, server])
                    } ?? []
                }
                #expect(sockets.map(\.ownersInferred) == [true, true] && sockets.allSatisfy { $0.owners.count == 1 })
                #expect(Set(sockets.map(\.bytes.payload.sent)) == [0, 70_000])
                #expect(Set(sockets.map(\.bytes.payload.received)) == [0, 70_000])
                #expect(Set(sockets.flatMap { $0.owners.map(\.identity.pid) }) == [program.pid])
                program.closeInput()
                _ = try await program.exit()
            }
        }

        @Test("no program is attached to a call or a packet, and the blind spots say what is not counted")
        func attachesNothing() async throws {
            try await withDaemon(method: Self.method) { daemon in
                let capture = try await daemon.snapshot().capture
                #expect(capture.method == .lifecycle)
                let calls = ["sendmsg", "recvmsg", "length", "space_adjust", "cgroup_skb", "net_dev", "netif"]
                #expect(!capture.hooks.contains { hook in calls.contains { hook.contains($0) } })
                #expect(capture.hooks.contains { $0.contains("tcp_destroy_sock") })
                #expect(capture.blindSpots.contains { $0.contains("UDP") })
            }
        }

        @Test("lifecycle with a count of packets is a usage error")
        func refusesPackets() async throws {
            for wire in ["exact", "audited"] {
                let arguments = ["run", "--method", Self.method, "--wire", wire]
                let result = try await Program.run(Machine.programs.daemon, arguments)
                #expect(result.code == 64 && result.error.contains("leave out --wire \(wire)"))
            }
        }
    }
}
