import CNamespaceWalk
import Glibc
import TrafficModel

/// Runs iterators over the TCP and UDP sockets of one network namespace after the other, in a process of its own. So
/// the sockets that no process holds are found too.
///
/// The counting thread never waits for it. Why it is a process: see `CNamespaceWalk.h`. What it finds of sockets goes to
/// the ring (`hand_over()` in bpf/iterate.bpf.h), so this class has only the serials of the sockets that exist.
///
/// A list of sockets is that of the reader's network namespace, so the process goes from namespace to namespace
/// (setns(2), CAP_SYS_ADMIN). The process keeps that right when the daemon gives it up. Each namespace costs a walk
/// through the kernel's table of all connections, whatever the namespace has.
final class NamespaceWalk {
    /// What a walk has brought.
    struct Findings {
        /// The 64-bit numbers that the programs wrote.
        var serials: Set<UInt64> = []
        /// All lists of these namespaces were read, by inode number.
        var namespaces: Set<UInt32> = []
        /// What could not be read, by program. The key is empty for namespaces that could not be entered.
        var failures: [String: Int32] = [:]
        fileprivate var nanoseconds: UInt64 = 0
    }

    enum Scope {
        /// The daemon's own namespace.
        case home
        /// All that a process lives in or that are mounted.
        case all
    }

    /// After a walk the process rests this many times as long as the walk took of a processor, so that a user with many
    /// namespaces can't keep the machine busy. A walk at home rests for its own time alone.
    private static let restFactor: UInt64 = 19
    /// A walk that says nothing for so long hangs, in nanoseconds: somebody keeps the lock of a socket. At the start the
    /// daemon waits as long.
    private static let patience: UInt64 = 10_000_000_000

    let process: pid_t
    private let programs: [String]
    /// `nil` only at the end.
    private var request: OwnedDescriptor?
    private let answer: OwnedDescriptor
    private var unread: [UInt8] = []
    private var findings = Findings()
    private var scope: Scope?
    private var heardAt: UInt64 = 0
    private var restsUntil: [Scope: UInt64] = [:]
    /// The process has ended, though nobody told it to.
    private(set) var hasEnded = false

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel makes no process or no pipe.
    init(_ iterators: [BPFIterator]) throws(CaptureError) {
        let links = iterators.map(\.linkDescriptor)
        var (request, answer): (Int32, Int32) = (-1, -1)
        self.process = try check("fork", "walk") {
            walk_start(links, UInt32(links.count), Privileges.ofWalk, &request, &answer)
        }
        self.request = OwnedDescriptor(owning: request)
        self.answer = OwnedDescriptor(owning: answer)
        self.programs = iterators.map(\.program.name)
    }

    deinit {
        // The process ends as its pipe does. If it hangs, it ends when the kernel lets it.
        self.request = nil
        var status: Int32 = 0
        for _ in 0..<100 where !self.hasEnded {
            if waitpid(self.process, &status, WNOHANG) != 0 { return }
            usleep(1_000)
        }
    }

    /// Whether a walk has begun, and its end was not taken yet.
    var isUnderWay: Bool { self.scope != nil }

    /// For how many seconds the process has said nothing, if it hangs.
    var secondsHanging: UInt64? {
        guard self.isUnderWay else { return nil }
        let silence = MonotonicClock.nanoseconds() -| self.heardAt
        return silence > Self.patience ? silence / 1_000_000_000 : nil
    }

    /// The next walk that is due; `nil`: none, or one is under way.
    var nextScope: Scope? {
        guard !self.isUnderWay && !self.hasEnded else { return nil }
        let now = MonotonicClock.nanoseconds()
        return [.all, .home].first { now >= self.restsUntil[$0, default: 0] }
    }

    /// - Parameter programs: Which iterators to run.
    func begin(_ scope: Scope, _ programs: Set<String>) throws(CaptureError) {
        let lists = self.programs.enumerated().reduce(UInt32(0)) {
            $0 | (programs.contains($1.element) ? 1 << $1.offset : 0)
        }
        var request = walk_request(lists: lists, scope: (scope == .all ? WALK_ALL : WALK_HOME).rawValue)
        let descriptor = self.request?.descriptor ?? -1
        try check("send", "walk") { walk_ask(descriptor, &request) }
        (self.scope, self.heardAt, self.findings) = (scope, MonotonicClock.nanoseconds(), Findings())
    }

    /// Takes what has come, without waiting.
    ///
    /// - Returns: The findings of the walk, if it has ended; otherwise `nil`.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the process has ended.
    func take() throws(CaptureError) -> (scope: Scope, findings: Findings)? {
        guard let scope else { return nil }
        var isAtEnd = false
        while !isAtEnd, try self.read() { isAtEnd = self.parse() }
        guard isAtEnd else { return nil }
        let factor = scope == .all ? Self.restFactor : 1
        self.restsUntil[scope] = MonotonicClock.nanoseconds() +| self.findings.nanoseconds *| factor
        self.scope = nil
        return (scope, self.findings)
    }

    /// Waits for the end of the walk.
    ///
    /// - Returns: `nil` if the walk hangs.
    func wait() throws(CaptureError) -> Findings? {
        while true {
            if let (_, findings) = try self.take() { return findings }
            guard self.secondsHanging == nil else { return nil }
            var event = pollfd(fd: self.answer.descriptor, events: Int16(POLLIN), revents: 0)
            try check("poll", "walk") { poll(&event, 1, 1_000) }
        }
    }

    /// - Returns: Whether anything came.
    private func read() throws(CaptureError) -> Bool {
        var count = 0
        let piece = [UInt8](unsafeUninitializedCapacity: BPFIterator.chunk) { buffer, length in
            count = Glibc.read(self.answer.descriptor, buffer.baseAddress, BPFIterator.chunk)
            length = max(0, count)
        }
        if count < 0 && (errno == EAGAIN || errno == EINTR) { return false }
        guard count > 0 else {
            (self.hasEnded, self.scope) = (true, nil)
            var status: Int32 = 0
            waitpid(self.process, &status, WNOHANG)
            throw .system(call: "read", object: "walk", errno: count < 0 ? errno : ECHILD)
        }
        self.heardAt = MonotonicClock.nanoseconds()
        self.unread += piece
        return true
    }

    /// - Returns: Whether the walk has ended.
    private func parse() -> Bool {
        var offset = 0
        defer { self.unread.removeFirst(offset) }
        let size = MemoryLayout<walk_header>.size
        while self.unread.count - offset >= size {
            let header = self.unread.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: walk_header.self) }
            guard self.unread.count - offset - size >= Int(header.length) else { return false }
            let output = offset + size
            offset = output + Int(header.length)
            switch walk_news(header.news) {
            case WALK_OUTPUT:
                self.unread.withUnsafeBytes { bytes in
                    for place in stride(from: output, to: offset - 7, by: 8) {
                        self.findings.serials.insert(bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
                    }
                }
            case WALK_NAMESPACE: self.findings.namespaces.insert(UInt32(truncatingIfNeeded: header.value))
            case WALK_FAILED:
                let program = Int(header.list) < self.programs.count ? self.programs[Int(header.list)] : ""
                self.findings.failures[program] = Int32(truncatingIfNeeded: header.value)
            case WALK_END:
                self.findings.nanoseconds = header.value
                return true
            default: break
            }
        }
        return false
    }
}
