import Dispatch
import Glibc
import Testing
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

/// The rung of BPF programs that this kernel takes, or why it takes none.
enum LiveRung {
    static let probed: (rung: CaptureRung?, reason: String) = {
        var reasons: [String] = []
        for rung in [CaptureRung.fexit, .tracepoint] {
            do {
                _ = try BPFCapture(rung: rung)
                return (rung, "")
            } catch {
                reasons.append("\(rung.rawValue): \(error)")
            }
        }
        return (nil, reasons.joined(separator: "; "))
    }()

    static var isAvailable: Bool { self.probed.rung != nil }
}

@Suite(
    "Live capture",
    .serialized,
    .enabled(if: LiveRung.isAvailable, "\(LiveRung.probed.reason)")
)
struct LiveCaptureTests {
    let rung = LiveRung.probed.rung ?? .tracepoint

    /// Two connected TCP sockets of this process on loopback.
    struct Pair: ~Copyable {
        let client: FileHandle
        let server: FileHandle

        init() throws {
            let listener = FileHandle(owning: try check("socket") { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) })
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let client = FileHandle(owning: try check("socket") { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) })
            let accepted = try withUnsafeMutablePointer(to: &address) { address in
                try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    try check("bind") { bind(listener.descriptor, address, length) }
                    try check("listen") { listen(listener.descriptor, 16) }
                    try check("getsockname") { getsockname(listener.descriptor, address, &length) }
                    try check("connect") { connect(client.descriptor, address, length) }
                    return try check("accept") { accept(listener.descriptor, nil, nil) }
                }
            }
            self.client = client
            self.server = FileHandle(owning: accepted)
        }

        /// Sends `count` bytes and reads them, whole.
        func transfer(_ count: Int) throws {
            var bytes = [UInt8](repeating: 7, count: count)
            let sent = try check("send") { send(self.client.descriptor, bytes, count, 0) }
            try #require(sent == count)
            let received = try check("recv") { recv(self.server.descriptor, &bytes, count, Int32(MSG_WAITALL)) }
            try #require(received == count)
        }

        var cookies: [UInt64] { [Self.cookie(self.client.descriptor), Self.cookie(self.server.descriptor)] }

        static func cookie(_ descriptor: Int32) -> UInt64 {
            var cookie: UInt64 = 0
            var length = socklen_t(MemoryLayout<UInt64>.size)
            getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length)
            return cookie
        }
    }

    /// Programs, maps, links and iterators that this process holds; other suites open other things meanwhile.
    static func openBPFDescriptors() -> Int {
        ProcessDirectory.entries("/proc/self/fd").filter { linkTarget("/proc/self/fd/\($0)")?.contains("bpf") ?? false }
            .count
    }

    @Test("a full ring delays the totals of closed sockets and loses none")
    func fullRing() throws {
        let capture = try BPFCapture(rung: self.rung, ringBytes: 4096)
        var ledger = Ledger()
        var cookies: Set<UInt64> = []
        for count in 1...200 {
            let pair = try Pair()
            cookies.formUnion(pair.cookies)
            try pair.transfer(count)
        }
        // Nothing was drained, and 4 KiB hold a dozen records. TCP destroys a socket when the last FIN is acknowledged.
        usleep(200_000)
        var final: [UInt64: PayloadBytes] = [:]
        var loss = CaptureLoss()
        try capture.sweep { event in
            ledger.absorb(event)
            if case .loss(let seen) = event { loss = seen }
            guard case .socket(let socket) = event, socket.closedBoottimeNanoseconds != nil,
                cookies.contains(socket.cookie.rawValue)
            else { return }
            final[socket.cookie.rawValue] = socket.owners.reduce(PayloadBytes()) { $0 + $1.payload }
        }
        #expect(final.count == 400)
        #expect(final.values.reduce(PayloadBytes(), +) == PayloadBytes(sent: 20_100, received: 20_100))
        #expect(loss.ringFull > 300)
        #expect(!loss.isLossy)
    }

    @Test("starting and stopping leaves no descriptor behind")
    func descriptors() throws {
        let before = Self.openBPFDescriptors()
        for _ in 0..<5 {
            let capture = try BPFCapture(rung: self.rung)
            try capture.sweep { _ in }
            #expect(Self.openBPFDescriptors() > before + 20)
        }
        #expect(Self.openBPFDescriptors() == before)
    }

    @Test("a socket older than the capture counts from then on, and says so")
    func baseline() throws {
        let pair = try Pair()
        try pair.transfer(5_000)
        let capture = try BPFCapture(rung: self.rung)
        try pair.transfer(321)
        var seen: [UInt64: SocketObservation] = [:]
        try capture.sweep { if case .socket(let socket) = $0 { seen[socket.cookie.rawValue] = socket } }
        let ends = try pair.cookies.map { try #require(seen[$0]) }
        #expect(ends.map(\.preexisting) == [true, true])
        #expect(ends[0].owners.map(\.payload) == [PayloadBytes(sent: 321)])
        #expect(ends[1].owners.map(\.payload) == [PayloadBytes(received: 321)])
        #expect(ends[0].owners.first?.identity.pid == getpid())
    }

    @Test("unread bytes at the start are received after it")
    func unreadAtStart() throws {
        let pair = try Pair()
        let bytes = [UInt8](repeating: 1, count: 1_000)
        #expect(send(pair.client.descriptor, bytes, 1_000, 0) == 1_000)
        let capture = try BPFCapture(rung: self.rung)
        var buffer = bytes
        #expect(recv(pair.server.descriptor, &buffer, 1_000, Int32(MSG_WAITALL)) == 1_000)
        var received: UInt64 = 0
        try capture.sweep {
            guard case .socket(let socket) = $0, socket.cookie.rawValue == pair.cookies[1] else { return }
            received = socket.owners.reduce(0) { $0 + $1.payload.received }
        }
        #expect(received == 1_000)
    }

    @Test("the sweep reports a socket again only when something of it changed")
    func quietSweep() throws {
        let pair = try Pair()
        let capture = try BPFCapture(rung: self.rung)
        try pair.transfer(10)
        usleep(100_000)  // the last acknowledgement
        let ours = pair.cookies
        let reported = { () throws -> Int in
            var count = 0
            try capture.sweep { if case .socket(let socket) = $0, ours.contains(socket.cookie.rawValue) { count += 1 } }
            return count
        }
        #expect(try reported() == 2)
        #expect(try reported() == 0)
        try pair.transfer(1)
        #expect(try reported() == 2)
    }

    /// The programs that count what a TCP socket takes.
    static let sendPrograms: Set = [
        "sock_send_length", "inet_sendmsg_exit", "inet6_sendmsg_exit", "inet_sendpage_exit",
    ]

    /// What the kernel has of a connection's stream: what `reader` was given, what waits there, and what `writer` still holds.
    static func taken(by writer: borrowing FileHandle, read: Int, waitingAt reader: borrowing FileHandle) throws -> Int
    {
        var unread: Int32 = 0
        var unacknowledged: Int32 = 0
        try check("SIOCINQ") { ioctl(reader.descriptor, UInt(FIONREAD), &unread) }
        try check("SIOCOUTQ") { ioctl(writer.descriptor, UInt(TIOCOUTQ), &unacknowledged) }
        return read + Int(unread) + Int(unacknowledged)
    }

    @Test("a send that blocks is seen while it runs, and counted once when it returns")
    func pendingSend() async throws {
        let capture = try BPFCapture(rung: self.rung)
        let pair = try Pair()
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
        // Until both buffers are full and the call sleeps.
        var taken = 0
        for _ in 0..<200 {
            let now = try Self.taken(by: pair.client, read: read, waitingAt: pair.server)
            if now == taken { break }
            taken = now
            usleep(50_000)
        }
        let seen = try Self.last(pair.cookies[0], in: capture)
        #expect(seen?.pendingSent == UInt64(taken))
        #expect(seen?.owners.map(\.payload.sent) == [0])

        var rest = count - read
        while rest > 0 {
            let more = recv(pair.server.descriptor, &buffer, min(rest, buffer.count), 0)
            try #require(more > 0)
            rest -= more
        }
        #expect(await sent == count)
        let final = try Self.last(pair.cookies[0], in: capture)
        #expect(final?.pendingSent == 0)
        #expect(final?.owners.map(\.payload.sent) == [UInt64(count)])
    }

    @Test("a send that gave up half-way is counted when it returns, though nothing moves any more")
    func sendTimeout() async throws {
        let capture = try BPFCapture(rung: self.rung)
        let pair = try Pair()
        let client = pair.client.descriptor
        var timeout = timeval(tv_sec: 1, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        try check("setsockopt") { setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &timeout, size) }
        let count = 64 << 20
        async let sent = withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(returning: send(client, [UInt8](repeating: 1, count: count), count, 0))
            }
        }
        usleep(500_000)
        let seen = try Self.last(pair.cookies[0], in: capture)
        let result = await sent
        #expect(result > 0 && result < count)
        #expect(seen?.pendingSent == UInt64(result))
        let final = try Self.last(pair.cookies[0], in: capture)
        #expect(final?.pendingSent == 0)
        #expect(final?.owners.map(\.payload.sent) == [UInt64(result)])
    }

    @Test("a socket that connects to itself is a client, and its stream has no byte more than its calls")
    func selfConnect() throws {
        // Something is left out, so that streams are compared with counters at the end.
        let capture = try BPFCapture(rung: self.rung, leavingOut: ["sock_recv_length"])
        let cookie = try { () throws -> UInt64 in
            let client = FileHandle(owning: try check("socket") { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) })
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
            let cookie = Pair.cookie(client.descriptor)
            let seen = try Self.last(cookie, in: capture)
            #expect(seen?.role == .client)
            #expect(seen?.pendingSent == 0)
            return cookie
        }()
        usleep(100_000)
        let final = try #require(try Self.last(cookie, in: capture))
        #expect(final.closedBoottimeNanoseconds != nil)
        #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 10, received: 10)])
    }

    @Test("sends that the kernel left our program out of are pending, and made up for when the socket ends")
    func missedSends() throws {
        let capture = try BPFCapture(rung: self.rung, leavingOut: Self.sendPrograms)
        let cookie = try { () throws -> UInt64 in
            let pair = try Pair()
            try pair.transfer(70_000)
            try pair.transfer(1)
            #expect(try Self.last(pair.cookies[0], in: capture)?.pendingSent == 70_001)
            return pair.cookies[0]
        }()
        usleep(100_000)  // the last acknowledgement
        let final = try #require(try Self.last(cookie, in: capture))
        #expect(final.closedBoottimeNanoseconds != nil)
        #expect(final.pendingSent == 0)
        #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 70_001)])
        #expect(final.unowned == PayloadBytes())
    }

    @Test("receives that the kernel left our program out of are made up for when the socket ends", arguments: [0, 9])
    func missedReceives(unread: Int) throws {
        let capture = try BPFCapture(rung: self.rung, leavingOut: ["tcp_receive"])
        let cookie = try { () throws -> UInt64 in
            let pair = try Pair()
            #expect(send(pair.server.descriptor, [1], 1, 0) == 1)
            try pair.transfer(70_000)
            #expect(send(pair.client.descriptor, [UInt8](repeating: 1, count: unread), unread, 0) == unread)
            return pair.cookies[1]
        }()
        usleep(100_000)
        let final = try #require(try Self.last(cookie, in: capture))
        #expect(final.closedBoottimeNanoseconds != nil)
        #expect(final.owners.map(\.payload) == [PayloadBytes(sent: 1, received: 70_000)])
    }

    @Test("a socket whose end was missed is found gone")
    func missedEnd() throws {
        let capture = try BPFCapture(rung: self.rung, leavingOut: ["tcp_destroy"])
        var ledger = Ledger()
        let sweep = { () throws -> [SocketUsage] in
            try capture.sweep { ledger.absorb($0) }
            ledger.absorb(.tick(at: Timestamp(nanosecondsSinceEpoch: 1), boottimeNanoseconds: 1))
            let snapshot = ledger.snapshot(
                countingSince: Timestamp(nanosecondsSinceEpoch: 0),
                host: HostFacts.description(),
                daemon: HostFacts.daemon(version: "test"),
                capture: capture.status
            )
            return snapshot.sockets ?? []
        }
        let held = try Pair()
        let cookies = try { () throws -> [UInt64] in
            let pair = try Pair()
            try pair.transfer(10)
            #expect(
                try sweep().filter { pair.cookies.contains($0.cookie.rawValue) }.map(\.state) == [
                    .established, .established,
                ]
            )
            return pair.cookies
        }()
        usleep(100_000)
        let gone = try sweep().filter { cookies.contains($0.cookie.rawValue) }
        #expect(gone.map(\.state) == [.closed, .closed])
        #expect(gone.allSatisfy { $0.closedAt != nil })
        #expect(gone.reduce(0) { $0 + $1.bytes.payload.total } == 20)
        let open = try sweep().filter { held.cookies.contains($0.cookie.rawValue) }
        #expect(open.map(\.state) == [.established, .established])
    }

    /// The last word of a sweep on a socket.
    static func last(_ cookie: UInt64, in capture: BPFCapture) throws -> SocketObservation? {
        var last: SocketObservation?
        try capture.sweep { if case .socket(let socket) = $0, socket.cookie.rawValue == cookie { last = socket } }
        return last
    }

    @Test("what the poll rung counts is what the BPF programs count", arguments: [1, 100, 70_000])
    func rungsAgree(count: Int) throws {
        let poll = try PollCapture()
        let capture = try BPFCapture(rung: self.rung)
        try poll.sweep { _ in }
        let pair = try Pair()
        try pair.transfer(count)
        var totals: [String: [UInt64: PayloadBytes]] = [:]
        for (name, source) in [("bpf", capture), ("poll", poll)] as [(String, any CaptureSource)] {
            try source.sweep {
                guard case .socket(let socket) = $0, pair.cookies.contains(socket.cookie.rawValue) else { return }
                totals[name, default: [:]][socket.cookie.rawValue] = socket.owners.reduce(PayloadBytes()) {
                    $0 + $1.payload
                }
            }
        }
        #expect(totals["bpf"]?.count == 2)
        #expect(totals["bpf"] == totals["poll"])
    }

    @Test("a stopped pace stops at once, and an idle one sweeps")
    func pace() throws {
        let stopper = try Stopper()
        let pace = try CapturePace(wakeDescriptor: nil, stopper: stopper, interval: .milliseconds(20))
        #expect(pace.next() == .sweep)
        stopper.stop()
        #expect(pace.next() == .stop)
    }
}
