import CTrafficABI
import Foundation
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// Sockets of more than two processes: as many as there is room for are owners of the socket, and the bytes of the
    /// others are in rows. Every byte counts for its process.
    @Suite("Shared sockets")
    struct SharedSocketTests {
        private let method = LiveMethod.probed.method ?? .tracepoint

        private static let mostOwners = Int(TRAFFIC_INLINE_OWNERS.rawValue + TRAFFIC_FURTHER_OWNERS.rawValue)

        /// What the programs of these tests have in common.
        private static let beginning = """
            import ctypes, os, resource, socket, sys
            def sender_and_receiver():
                sender, receiver = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                receiver.bind(("127.0.0.1", 0))
                sender.connect(receiver.getsockname())
                return sender, receiver
            def client_and_server():
                with socket.create_server(("127.0.0.1", 0)) as listener:
                    client = socket.create_connection(listener.getsockname())
                    return client, listener.accept()[0]
            def cookie(one):
                return int.from_bytes(one.getsockopt(socket.SOL_SOCKET, 57, 8), "little")
            def become(uid):
                os.setresuid(0, 0, 0)
                if uid: os.setresuid(uid, uid, 0)
            def child(body, uid=0):
                pid = os.fork()
                if pid == 0:
                    if uid:
                        os.setgroups([])
                        os.setgid(uid)
                        os.setuid(uid)
                    body()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
                return pid
            def say(*words):
                print(*words, flush=True)
                sys.stdin.readline()

            """

        /// A program whose last line is `say(...)`, and a capture that sees it.
        private struct Run {
            let capture: BPFCapture
            var ledger = Ledger()
            var latest = LatestRecords()
            private let process: Foundation.Process
            private let input: Pipe
            private let output: Pipe

            init(_ capture: BPFCapture, _ program: String) throws {
                self.capture = capture
                let whole = SharedSocketTests.beginning + program
                (self.process, self.input, self.output) = try LiveCaptureTests.python(whole)
            }

            var pid: Int32 { self.process.processIdentifier }

            /// What the program says. Then it waits.
            func numbers() throws -> [UInt64] {
                try self.output.nextLine().split(separator: " ").compactMap { UInt64($0) }
            }

            func goOn() throws { try self.input.fileHandleForWriting.write(contentsOf: Data("\n".utf8)) }

            func end() {
                try? self.input.fileHandleForWriting.close()
                self.process.waitUntilExit()
            }

            mutating func sweep() throws {
                try self.capture.sweep { event in
                    self.latest.absorb(event)
                    self.ledger.absorb(event)
                }
            }

            /// Sweeps until these processes have sent so much, or for long enough.
            ///
            /// - Returns: What each has sent.
            mutating func sent(by pids: [Int32], until wanted: [UInt64]) throws -> [UInt64] {
                try blockingLook(until: { $0 == wanted }) { () -> [UInt64] in
                    try self.sweep()
                    let processes = self.ledger.tick(self.capture).snapshot.processes ?? []
                    let listed = Dictionary(grouping: processes, by: \.identity.pid)
                    return pids.map { listed[$0]?.last?.bytes.payload.sent ?? 0 }
                }
            }

            /// Until the next sweep, what this process receives over TCP counts for the kernel: the programs take it for
            /// the walk through the network namespaces, which makes no call on sockets.
            func takeForWalk(_ pid: UInt32) throws {
                let map = try self.capture.kernel.map(".data.live")
                var settings = try map.value(at: 0, as: traffic_live_settings.self)
                settings.walker = pid
                try map.setGlobals(settings)
            }

            /// For how many shared sockets the user pays.
            func sharedSockets(of uid: UInt32) throws -> UInt32 {
                try self.capture.kernel.map("payers")
                    .value(at: uid % TRAFFIC_USERS_TOLD_APART.rawValue, as: traffic_payer.self).shared_sockets
            }
        }

        /// Several records of one kind or both are in the same output of a sweep, and one socket of each number of
        /// processes moves on after its first record.
        @Test("each process of a socket has its bytes, and as many as there is room for are its owners")
        func owners() throws {
            let counts = [1, 2, 3, 40, Self.mostOwners, Self.mostOwners + 1, 1_000]
            let capture = try BPFCapture(method: self.method)
            var run = try Run(
                capture,
                """
                sockets = [sender_and_receiver() for _ in range(\(counts.count))]
                cookies = [cookie(sender) for sender, _ in sockets]
                def send(sender, size): assert sender.send(bytes(size)) == size
                pids = []
                for (sender, receiver), count in zip(sockets, \(counts)):
                    pids.append([child(lambda: send(sender, 10 + i)) for i in range(count)])
                say(*cookies)
                say(*[pid for some in pids for pid in some])
                again = [child(lambda: send(sender, 7)) for sender, _ in sockets]
                say(*again)
                for sender, receiver in sockets: sender.close()
                say()
                """
            )
            defer { run.end() }
            let cookies = try run.numbers()
            try #require(cookies.count == counts.count)
            try run.sweep()
            try run.goOn()
            let pids = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            try #require(pids.count == counts.reduce(0, +))
            let amounts = counts.flatMap { count in (0..<UInt64(count)).map { 10 + $0 } }
            let counted = try run.sent(by: pids, until: amounts)
            #expect(counted == amounts)
            func check(_ moved: (Int) -> UInt64, _ number: (Int) -> Int) {
                for (cookie, count) in zip(cookies, counts) {
                    let seen = run.latest[cookie]
                    #expect(seen?.owners.count == min(number(count), Self.mostOwners), "\(count)")
                    #expect(Set(seen?.owners.map(\.identity) ?? []).count == seen?.owners.count)
                    let inRows = seen?.inRows?.sent ?? 0
                    #expect((seen?.ownedPayload.sent ?? 0) + inRows == moved(count), "\(count)")
                    #expect((inRows > 0) == (number(count) > Self.mostOwners))
                    for owner in seen?.owners ?? [] {
                        guard let index = pids.firstIndex(of: owner.identity.pid) else { continue }
                        #expect(owner.payload == PayloadBytes(sent: amounts[index]))
                    }
                }
            }
            check({ count in (0..<UInt64(count)).reduce(0) { $0 + 10 + $1 } }, { $0 })
            try run.goOn()
            let again = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let sevens = [UInt64](repeating: 7, count: counts.count)
            let countedAgain = try run.sent(by: again, until: sevens)
            #expect(countedAgain == sevens)
            check({ count in (0..<UInt64(count)).reduce(7) { $0 + 10 + $1 } }, { $0 + 1 })
            try run.goOn()
            _ = try run.numbers()
            // The final records have the same owners, and nothing counts twice.
            let isClosed = try blockingLook(until: \.self) {
                try run.sweep()
                return cookies.allSatisfy { run.latest[$0]?.closedBoottimeNanoseconds != nil }
            }
            #expect(isClosed)
            check({ count in (0..<UInt64(count)).reduce(7) { $0 + 10 + $1 } }, { $0 + 1 })
            let countedInAll = try run.sent(by: pids + again, until: amounts + sevens)
            #expect(countedInAll == amounts + sevens)
            #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
            #expect(capture.status.loss.callsFolded >= 1_000 - UInt64(Self.mostOwners))
        }

        @Test("with no room for their records, closed sockets leave the bytes of all their processes in rows")
        func folded() throws {
            // No record of a shared socket fits into such a ring.
            let capture = try BPFCapture(method: self.method, ringBytes: 4_096, mapElements: 64)
            let (sockets, processesOfSocket) = (200, 7)
            var run = try Run(
                capture,
                """
                listener = socket.create_server(("127.0.0.1", 0))
                pairs = []
                for _ in range(\(sockets)):
                    client = socket.create_connection(listener.getsockname())
                    pairs.append((client, listener.accept()[0]))
                def move(size):
                    for client, server in pairs:
                        assert client.send(bytes(size)) == size and len(server.recv(size, socket.MSG_WAITALL)) == size
                def some(part):
                    return [child(lambda: move(part * (i + 1))) for i in range(\(processesOfSocket))]
                say(*some(1))
                # Of these bytes no record has anything when the sockets close.
                pids = some(10)
                for pair in pairs:
                    for half in pair: half.close()
                say(*pids)
                """
            )
            defer { run.end() }
            let first = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let amounts = (1...UInt64(processesOfSocket)).map { $0 * UInt64(sockets) }
            let counted = try run.sent(by: first, until: amounts)
            #expect(counted == amounts)
            try run.goOn()
            let second = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let all = amounts + amounts.map { $0 * 10 }
            let countedInAll = try run.sent(by: first + second, until: all)
            #expect(countedInAll == all)
            #expect(capture.status.loss.socketsFolded > 100)
            #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
            // What the ledger has is what it keeps: no later record counts again.
            for _ in 1...5 { try run.sweep() }
            let countedLater = try run.sent(by: first + second, until: all)
            #expect(countedLater == all)
            // Rows divide the packets of a socket among its processes: nothing gets lost, and nothing is there twice.
            let snapshot = run.ledger.tick(capture).snapshot
            let processes = snapshot.processes ?? []
            let bytes = (processes.map(\.bytes) + (snapshot.exited ?? []).map(\.bytes))
                .reduce(run.ledger.balance(countingSince: .now).groups.unowned, +)
            #expect(bytes.wireSent == snapshot.totals.bytes.wireSent)
            #expect(bytes.wireReceived == snapshot.totals.bytes.wireReceived)
            // The headers of a segment have 40 bytes or more, and those of few segments have more than 60. Each is
            // acknowledged at most once, and a connection begins and ends with fewer than ten segments.
            let own = Set(first + second + [run.pid])
            let wire = processes.filter { own.contains($0.identity.pid) }.reduce(0) { $0 + ($1.bytes.wireSent ?? 0) }
            let (payload, segments) = (all.reduce(0, +), UInt64(sockets * 2 * processesOfSocket))
            let (least, most) = (payload + 40 * segments, payload + 60 * (2 * segments + 10 * UInt64(sockets)))
            #expect((least...most).contains(wire))
        }

        /// In each round a socket's first user is a process of 64 threads, which have just started, and then there are
        /// others. The users of another socket are 64 processes at once.
        @Test("threads and processes that use a socket at once for the first time are one owner for each process")
        func firstUses() throws {
            let (user, rounds) = (UInt32(54_332), 10)
            let capture = try BPFCapture(method: self.method)
            var run = try Run(
                capture,
                """
                import threading
                def send(sender): assert sender.send(b"x" * 10) == 10
                def threads(sender):
                    start = threading.Barrier(64)
                    def run():
                        start.wait()
                        send(sender)
                    every = [threading.Thread(target=run) for _ in range(64)]
                    for one in every: one.start()
                    for one in every: one.join()
                def together(body):
                    start, begin = os.pipe()
                    pids = []
                    for _ in range(64):
                        pid = os.fork()
                        if pid == 0:
                            # Ends when no process has the other end: the parent closes it last.
                            os.close(begin)
                            os.read(start, 1)
                            body()
                            os._exit(0)
                        pids.append(pid)
                    os.close(begin)
                    for pid in pids: assert os.waitpid(pid, 0)[1] == 0
                    os.close(start)
                    return pids
                os.setgid(\(user))
                os.setuid(\(user))
                pairs = [sender_and_receiver() for _ in range(\(2 * rounds))]
                pids = []
                for (one, _), (other, _) in zip(pairs[::2], pairs[1::2]):
                    pids.append(child(lambda: threads(one)))
                    pids += [child(lambda: send(one)) for _ in range(3)]
                    pids += together(lambda: send(other))
                say(*[cookie(sender) for sender, _ in pairs])
                say(*pids)
                """
            )
            defer { run.end() }
            let cookies = try run.numbers()
            try run.goOn()
            let pids = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            try #require(cookies.count == 2 * rounds && pids.count == 68 * rounds)
            let ofRound = [640] + [UInt64](repeating: 10, count: 67)
            let amounts = (0..<rounds).flatMap { _ in ofRound }
            let counted = try run.sent(by: pids, until: amounts)
            if counted != amounts && capture.status.loss.missedRuns > 0 {
                try Test.cancel("this kernel skips programs of calls while it has interrupted others")
            }
            #expect(counted == amounts)
            for (index, cookie) in cookies.enumerated() {
                let isOfThreads = index % 2 == 0
                let owners = run.latest[cookie]?.owners ?? []
                #expect(owners.count == (isOfThreads ? 4 : 64))
                #expect(Set(owners.map(\.identity)).count == owners.count)
                #expect(run.latest[cookie]?.ownedPayload == PayloadBytes(sent: isOfThreads ? 670 : 640))
                #expect(run.latest[cookie]?.inRows == nil)
            }
            #expect(try run.sharedSockets(of: user) == UInt32(2 * rounds))
            #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
        }

        /// How the socket gets its first owner.
        enum Beginning: CaseIterable {
            case datagrams, stream
            /// The first process has another user when others use the socket.
            case changedUser
            /// root has made the socket and not used it.
            case madeByRoot
            /// Only the kernel has received anything.
            case kernel

            /// - Returns: Lines of a program that is the user `maker`. They make the socket `shared` and its other end,
            ///   `end`.
            func program(_ maker: UInt32, _ other: UInt32) -> String {
                switch self {
                case .datagrams: "shared, end = sender_and_receiver()\nbecome(0)\nchild(send, \(maker))"
                case .stream: "shared, end = client_and_server()"
                case .changedUser: "shared, end = sender_and_receiver()\nsend()\nbecome(\(other))\nsend()"
                case .madeByRoot: "become(0)\nshared, end = sender_and_receiver()\nbecome(\(maker))\nsend()"
                case .kernel:
                    """
                    end, shared = client_and_server()
                    assert end.send(b"x" * 10) == 10
                    say(os.getpid(), cookie(shared))
                    assert len(shared.recv(10, socket.MSG_WAITALL)) == 10
                    say()
                    """
                }
            }
        }

        @Test(
            "the user of the first process pays until the socket ends, or else who made it",
            arguments: Beginning.allCases
        )
        func payers(_ beginning: Beginning) throws {
            let (maker, other) = (UInt32(54_327), UInt32(54_328))
            let capture = try BPFCapture(method: self.method)
            var run = try Run(
                capture,
                """
                def send(): assert shared.send(b"x" * 10) == 10
                become(\(maker))
                \(beginning.program(maker, other))
                become(0)
                say(*[child(send, uid) for uid in (\(other), \(maker), \(other), \(maker))])
                for each in (shared, end): each.close()
                say()
                """
            )
            defer { run.end() }
            var cookie: UInt64?
            if beginning == .kernel {
                let numbers = try run.numbers()
                try #require(numbers.count == 2)
                try run.takeForWalk(UInt32(truncatingIfNeeded: numbers[0]))
                cookie = numbers[1]
                try run.goOn()
                _ = try run.numbers()
                try run.goOn()
            }
            let pids = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let counted = try run.sent(by: pids, until: [10, 10, 10, 10])
            #expect(counted == [10, 10, 10, 10])
            if let cookie { #expect(run.latest[cookie]?.owners.first?.identity == .kernel) }
            let paying = try [maker, other].map(run.sharedSockets)
            #expect(paying == [1, 0])
            try run.goOn()
            _ = try run.numbers()
            // TCP ends a socket some time after close(2).
            let payingLater = try blockingLook(until: { $0 == [0, 0] }) { try [maker, other].map(run.sharedSockets) }
            #expect(payingLater == [0, 0])
        }

        @Test(
            "a user shares as many sockets as the limit says, and others after these have ended",
            SocketFlood.floods,
            arguments: [false, true]
        )
        func limit(ofStreams: Bool) throws {
            let (user, stranger, limit) = (UInt32(54_329), UInt32(54_330), Int(TRAFFIC_SHARED_SOCKETS.rawValue))
            let guest = UInt32(54_332)
            // The process that makes a connection is an owner of it.
            let mostOwners = ofStreams ? 4 : 3
            let capture = try BPFCapture(method: self.method)
            var run = try Run(
                capture,
                """
                most = max(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
                def make(count, uid):
                    become(uid)
                    pairs = [\(ofStreams ? "client_and_server" : "sender_and_receiver")() for _ in range(count)]
                    become(0)
                    return pairs
                def send(pairs):
                    for one, _ in pairs: assert one.send(b"x" * 10) == 10
                def share(pairs, uid): return [child(lambda: send(pairs), uid) for _ in range(3)]
                def close(pairs):
                    for pair in pairs:
                        for end in pair: end.close()
                many, one = make(\(limit) + 1, \(user)), make(1, \(stranger))
                say(*share(many, \(user)), *share(one, \(stranger)))
                lent = make(1, \(user))
                say(*[child(lambda: send(lent), uid) for uid in (\(user), \(guest), \(guest))])
                close(many)
                close(lent)
                say()
                later = make(1, \(user))
                say(*share(later, \(user)))
                close(later)
                say()
                """
            )
            defer { run.end() }
            let pids = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let amounts = [UInt64](repeating: UInt64(limit + 1) * 10, count: 3) + [10, 10, 10]
            let counted = try run.sent(by: pids, until: amounts)
            #expect(counted == amounts)
            let paying = try [user, stranger].map(run.sharedSockets)
            #expect(paying == [UInt32(limit), 1])
            let owners = run.latest.byCookie.values.filter { $0.owners.contains { $0.uid == user } }.map(\.owners.count)
            #expect(owners.count { $0 == mostOwners } == limit && owners.count { $0 == 2 } == 1)
            // The user has no place left, so the third process of a further socket pays for it.
            try run.goOn()
            let guests = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let countedOfGuests = try run.sent(by: guests, until: [10, 10, 10])
            #expect(countedOfGuests == [10, 10, 10])
            let payingForGuests = try [user, guest].map(run.sharedSockets)
            #expect(payingForGuests == [UInt32(limit), 1])
            try run.goOn()
            _ = try run.numbers()
            let placesOfGuest = try blockingLook(until: { $0 == 0 }) { try run.sharedSockets(of: guest) }
            #expect(placesOfGuest == 0)
            let places = try blockingLook(until: { $0 == 0 }) { try run.sharedSockets(of: user) }
            #expect(places == 0)
            try run.goOn()
            let later = try run.numbers().map { Int32(truncatingIfNeeded: $0) }
            let countedLater = try run.sent(by: later, until: [10, 10, 10])
            #expect(countedLater == [10, 10, 10])
            #expect(try run.sharedSockets(of: user) == 1)
            try run.goOn()
            _ = try run.numbers()
            let placesLater = try blockingLook(until: { $0 == 0 }) { try run.sharedSockets(of: user) }
            #expect(placesLater == 0)
            #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
        }

        /// What is attached to a socket may take as much memory as optmem_max says, in new kernels by network namespace:
        /// enough for the first storage, and too little for the second.
        @Test("where a socket may take no memory for a second storage, it has two owners, and all bytes count")
        func refusedStorage() throws {
            let user = UInt32(54_331)
            let capture = try BPFCapture(method: self.method)
            var run = try Run(
                capture,
                """
                import fcntl, struct
                assert ctypes.CDLL(None).unshare(0x40000000) == 0  # CLONE_NEWNET
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any:
                    fcntl.ioctl(any, 0x8914, struct.pack("16sH14x", b"lo", 1))
                try:
                    with open("/proc/sys/net/core/optmem_max", "w") as most: most.write("4096")
                except OSError:
                    say()
                    os._exit(0)
                sender, receiver = sender_and_receiver()
                def send(): sender.send(b"x" * 10)
                pids = [child(send, \(user)) for _ in range(5)]
                say(cookie(sender), *pids)
                """
            )
            defer { run.end() }
            let numbers = try run.numbers()
            guard let cookie = numbers.first else {
                try Test.cancel("this kernel has no limit of optional memory for a network namespace")
            }
            let pids = numbers.dropFirst().map { Int32(truncatingIfNeeded: $0) }
            let tens = [UInt64](repeating: 10, count: 5)
            let counted = try run.sent(by: pids, until: tens)
            #expect(counted == tens)
            #expect(run.latest[cookie]?.owners.count == 2)
            #expect(run.latest[cookie]?.inRows == PayloadBytes(sent: 30))
            #expect(try run.sharedSockets(of: user) == 0)
        }
    }
}
