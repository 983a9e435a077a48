import CLinux
import Dispatch
import Glibc
import Synchronization
import TestSupport
import TestTraits
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

import class Foundation.Thread

@testable import TrafficCapture

extension LiveCaptureTests {
    /// What the stream's own sequence numbers add to the return values of calls (`bpf/send.bpf.h`).
    @Suite("TCP streams")
    struct StreamTests {
        let method = LiveMethod.probed.method ?? .tracepoint

        /// The programs that count what a TCP socket takes.
        static let sendPrograms: Set = [
            "sock_send_length", "inet_sendmsg_exit", "inet6_sendmsg_exit", "inet_sendpage_exit",
        ]

        /// What the kernel has of a connection's stream: what `reader` was given, what waits there, and what `writer`
        /// still holds.
        ///
        /// - Returns: `nil` while both have some bytes, because the acknowledgement is under way.
        static func taken(
            by writer: borrowing OwnedDescriptor,
            read: Int,
            waitingAt reader: borrowing OwnedDescriptor
        ) throws -> Int? {
            var unread: Int32 = 0
            var unacknowledged: Int32 = 0
            var information = [UInt64](repeating: 0, count: 16)
            var length = socklen_t(information.count * MemoryLayout<UInt64>.size)
            try check("SIOCINQ") { ioctl(reader.descriptor, UInt(FIONREAD), &unread) }
            try check("TCP_INFO") {
                getsockopt(writer.descriptor, Int32(IPPROTO_TCP), TCP_INFO, &information, &length)
            }
            try check("SIOCOUTQ") { ioctl(writer.descriptor, UInt(TIOCOUTQ), &unacknowledged) }
            let arrived = read + Int(unread)
            // The number of the SYN is acknowledged, too.
            let acknowledged = Int(information[Int(LINUX_TCP_INFO_BYTES_ACKED.rawValue) / 8]) - 1
            return arrived == acknowledged ? arrived + Int(unacknowledged) : nil
        }

        /// Looks at the client while its call goes on and the stream takes nothing: both buffers are full, or the call
        /// has lost its processor.
        ///
        /// - Returns: What the stream had taken before and after, and the client's latest record.
        static func lookAtRest(
            at pair: borrowing SocketPair,
            read: Int,
            by capture: BPFCapture
        ) throws -> (taken: Int, seen: SocketObservation?) {
            var seen: SocketObservation?
            let taken = try blockingLook(until: { $0 != nil }) { () -> Int? in
                let before = try self.taken(by: pair.client, read: read, waitingAt: pair.server)
                // No record: the socket has not changed since the last one.
                seen = try capture.last(pair.cookies[0]) ?? seen
                let after = try self.taken(by: pair.client, read: read, waitingAt: pair.server)
                return before == after && before != 0 ? before : nil
            }
            return (try #require(taken), seen)
        }

        @Test("a send that blocks is seen while it runs, and counted once when it returns")
        func pendingSend() async throws {
            let capture = try BPFCapture(method: self.method)
            let pair = try SocketPair()
            let count = 64 << 20
            let client = pair.client.descriptor
            async let sent = withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    continuation.resume(returning: send(client, [UInt8](repeating: 1, count: count), count, 0))
                }
            }
            var buffer = [UInt8](repeating: 0, count: 5 << 20)
            let read = recv(pair.server.descriptor, &buffer, buffer.count, Int32(MSG_WAITALL))
            #expect(read == buffer.count)
            let (taken, seen) = try Self.lookAtRest(at: pair, read: read, by: capture)
            #expect(seen?.pendingSent == UInt64(taken))
            #expect(seen?.owners.map(\.payload.sent) == [0])

            var rest = count - read
            while rest > 0 {
                let more = recv(pair.server.descriptor, &buffer, min(rest, buffer.count), 0)
                try #require(more > 0)
                rest -= more
            }
            #expect(await sent == count)
            let final = try capture.last(pair.cookies[0])
            #expect(final?.pendingSent == 0)
            #expect(final?.owners.map(\.payload.sent) == [UInt64(count)])
        }

        @Test("a send that is interrupted half-way is counted when it returns, though no more bytes move")
        func interruptedSend() async throws {
            let capture = try BPFCapture(method: self.method)
            let count = 64 << 20
            // The call may take more between the look and the signal. Then the look was too early.
            let (taken, seen, result, final) = try await look(every: .zero, until: { $0.taken == $0.result }) {
                try await Self.interruptSend(of: count, seenBy: capture)
            }
            #expect(result == taken && result < count)
            #expect(seen?.pendingSent == UInt64(result))
            #expect(final?.pendingSent == 0)
            #expect(final?.owners.map(\.payload.sent) == [UInt64(result)])
        }

        /// - Returns: A look at a send that nobody reads, what the send returned, and a look after that.
        private static func interruptSend(
            of count: Int,
            seenBy capture: BPFCapture
        ) async throws -> (taken: Int, seen: SocketObservation?, result: Int, final: SocketObservation?) {
            let pair = try SocketPair()
            let client = pair.client.descriptor
            // Without SA_RESTART the call returns the number of bytes sent so far.
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { _ in }
            try check("sigaction") { sigaction(SIGUSR1, &action, nil) }
            let sender = Mutex<pthread_t?>(nil)
            async let sent = withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    // The new thread inherits a mask that blocks all signals.
                    var signals = sigset_t()
                    sigemptyset(&signals)
                    sigaddset(&signals, SIGUSR1)
                    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
                    sender.withLock { $0 = pthread_self() }
                    continuation.resume(returning: send(client, [UInt8](repeating: 1, count: count), count, 0))
                }
            }
            let (taken, seen) = try Self.lookAtRest(at: pair, read: 0, by: capture)
            pthread_kill(try #require(sender.withLock { $0 }), SIGUSR1)
            let result = await sent
            return (taken, seen, result, try capture.last(pair.cookies[0]))
        }

        @Test(
            "a socket that connects to itself is a client, and its stream has no byte more than its calls",
            SocketFlood.needsRecords
        )
        func selfConnect() throws {
            // One program is left out, so that the capture compares streams with counters at the end.
            let capture = try BPFCapture(method: self.method, leavingOut: ["sock_recv_length"])
            let cookie = try { () throws -> UInt64 in
                let client = OwnedDescriptor(
                    owning: try check("socket") {
                        socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
                    }
                )
                var address = sockaddr_in()
                address.sin_family = sa_family_t(AF_INET)
                address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                try withUnsafeMutablePointer(to: &address) { address in
                    try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                        try check("bind") { bind(client.descriptor, address, length) }
                        try check("getsockname") { getsockname(client.descriptor, address, &length) }
                        try check("connect") { connect(client.descriptor, address, length) }
                    }
                }
                var bytes = [UInt8](repeating: 1, count: 10)
                #expect(send(client.descriptor, bytes, 10, 0) == 10)
                #expect(recv(client.descriptor, &bytes, 10, Int32(MSG_WAITALL)) == 10)
                let cookie = SocketPair.cookie(client.descriptor)
                let seen = try capture.last(cookie)
                #expect(seen?.role == .client)
                #expect(seen?.pendingSent == 0)
                return cookie
            }()
            let final = try #require(try capture.lastWord(on: cookie))
            #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 10, received: 10)])
        }

        @Test(
            "sends that the BPF programs missed are pending, and count when the socket ends",
            SocketFlood.needsRecords
        )
        func missedSends() throws {
            let capture = try BPFCapture(method: self.method, leavingOut: Self.sendPrograms)
            let cookie = try { () throws -> UInt64 in
                let pair = try SocketPair()
                try pair.transfer(70_000)
                try pair.transfer(1)
                #expect(try capture.last(pair.cookies[0])?.pendingSent == 70_001)
                return pair.cookies[0]
            }()
            let final = try #require(try capture.lastWord(on: cookie))
            #expect(final.pendingSent == 0)
            #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 70_001)])
            #expect(final.unowned == PayloadBytes())
        }

        @Test(
            "receives that the BPF program missed count when the socket ends",
            SocketFlood.needsRecords,
            arguments: [0, 9]
        )
        func missedReceives(unread: Int) throws {
            let capture = try BPFCapture(method: self.method, leavingOut: ["tcp_receive"])
            let cookie = try { () throws -> UInt64 in
                let pair = try SocketPair()
                #expect(send(pair.server.descriptor, [1], 1, 0) == 1)
                try pair.transfer(70_000)
                #expect(send(pair.client.descriptor, [UInt8](repeating: 1, count: unread), unread, 0) == unread)
                return pair.cookies[1]
            }()
            let final = try #require(try capture.lastWord(on: cookie))
            #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 1, received: 70_000)])
        }

        @Test("now and then a census lists all sockets, though no call was missed", arguments: [false, true])
        func census(ofHeldSockets: Bool) throws {
            let capture = try BPFCapture(method: self.method, refusing: ofHeldSockets ? [BPFPrograms.sweep] : [])
            let pair = try SocketPair()
            var censuses: [SocketCensus] = []
            var ours: Set<UInt64> = []
            // One is due after these sweeps, and the next ones then. A walk through the namespaces takes some sweeps more.
            // Each sweep reads all files of all processes, so 300 take long beside a test that opens a million.
            capture.censuses.sweepsBetween = 5
            let count = try blockingLook(every: .zero, until: { $0 >= CaptureEvent.censusesUntilClosed }) {
                try capture.sweep { event in
                    switch event {
                    case .census(let census): censuses.append(census)
                    case .socket(let socket) where pair.cookies.contains(socket.cookie.rawValue):
                        ours.insert(socket.serial)
                    default: break
                    }
                }
                return censuses.count
            }
            #expect(count >= CaptureEvent.censusesUntilClosed)
            let last = try #require(censuses.last)
            #expect(ours.count == 2 && last.serials.isSuperset(of: ours))
            #expect(last.covers(.tcp, in: try #require(ProcessDirectory.networkNamespace(task: "thread-self"))))
            #expect(last.covers(.mptcp, in: 1) == (last.namespaces == nil))
        }

        @Test(
            "a socket whose end was missed is found closed, with all its bytes",
            arguments: [false, true],
            [false, true]
        )
        func missedEnd(isSeenBefore: Bool, ofHeldSockets: Bool) throws {
            let capture = try BPFCapture(
                method: self.method,
                leavingOut: ["tcp_destroy"],
                refusing: ofHeldSockets ? [BPFPrograms.sweep] : []
            )
            var ledger = Ledger()
            let sweep = { () throws -> [SocketUsage] in
                try capture.sweep { ledger.absorb($0) }
                ledger.absorb(.tick(at: Timestamp(nanosecondsSinceEpoch: 1), boottimeNanoseconds: 1))
                let reading = ledger.reading(
                    countingSince: Timestamp(nanosecondsSinceEpoch: 0),
                    host: HostFacts.description(),
                    daemon: HostFacts.daemon(version: "test"),
                    capture: capture.status
                )
                return reading.snapshot.sockets ?? []
            }
            let held = try SocketPair()
            let cookies = try { () throws -> [UInt64] in
                let pair = try SocketPair()
                try pair.transfer(10)
                guard isSeenBefore else { return pair.cookies }
                #expect(
                    try sweep().filter { pair.cookies.contains($0.cookie.rawValue) }.map(\.state) == [
                        .established, .established,
                    ]
                )
                try pair.transfer(5)
                return pair.cookies
            }()
            let ours = { (sockets: [SocketUsage]) in sockets.filter { cookies.contains($0.cookie.rawValue) } }
            // TCP ends the sockets some time after close(2), and each has to be missing in several censuses.
            capture.censuses.sweepsBetween = 5
            let closed = try blockingLook(until: { $0.map(\.state) == [.closed, .closed] }) { ours(try sweep()) }
            #expect(closed.map(\.state) == [.closed, .closed])
            #expect(closed.allSatisfy { $0.closedAt != nil })
            #expect(closed.reduce(0) { $0 + $1.bytes.payload.total } == (isSeenBefore ? 30 : 20))
            let open = try sweep().filter { held.cookies.contains($0.cookie.rawValue) }
            #expect(open.map(\.state) == [.established, .established])
        }
    }
}
