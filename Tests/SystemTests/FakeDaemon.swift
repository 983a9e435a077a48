import CUnixSocket
import Foundation
import Glibc
import Synchronization
import TrafficAudit
import TrafficExport
import TrafficModel

/// A control socket that serves made-up snapshots. So the test knows exactly what `trafficctl` must show, and can take
/// the
/// daemon away at any moment.
final class FakeDaemon: Sendable {
    private struct State {
        var listener: Int32
        var connections: Set<Int32> = []
    }

    private let state: Mutex<State>
    private let makeSnapshot: @Sendable () -> Snapshot
    private let audit: AuditReport?

    /// - Parameters:
    ///   - directory: Gets a `control.sock`, which replaces an existing one.
    ///   - audit: `nil` if the daemon serves no audit.
    ///   - snapshot: Called for every answer and every line of a stream.
    init(directory: String, audit: AuditReport? = nil, snapshot: @escaping @Sendable () -> Snapshot) throws {
        let path = directory + "/control.sock"
        unlink(path)
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard unix_socket_bind(listener, path) == 0, listen(listener, 16) == 0 else {
            throw POSIXError(.init(rawValue: errno) ?? .EIO)
        }
        self.state = Mutex(State(listener: listener))
        self.makeSnapshot = snapshot
        self.audit = audit
        Thread.detachNewThread { [self] in self.acceptConnections(listener) }
    }

    deinit {
        self.stop()
    }

    /// Ends as a killed daemon does: the socket's file stays, all connections end.
    func stop() {
        self.state.withLock { state in
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
            guard state.listener >= 0 else { return }
            shutdown(state.listener, Int32(SHUT_RDWR))
            close(state.listener)
            state.listener = -1
        }
    }

    private var isStopped: Bool { self.state.withLock { $0.listener < 0 } }

    private func acceptConnections(_ listener: Int32) {
        while true {
            let connection = accept(listener, nil, nil)
            guard connection >= 0 else { return }
            self.state.withLock { _ = $0.connections.insert(connection) }
            Thread.detachNewThread { [self] in
                self.serve(connection)
                self.state.withLock { _ = $0.connections.remove(connection) }
                close(connection)
            }
        }
    }

    private func serve(_ connection: Int32) {
        var request = ""
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !request.contains("\r\n\r\n") {
            let count = read(connection, &buffer, buffer.count)
            guard count > 0 else { return }
            request += String(decoding: buffer[..<count], as: UTF8.self)
        }
        let target = request.split(separator: " ")[1]
        switch target.split(separator: "?")[0] {
        case "/v1/stream": self.stream(target, to: connection)
        case "/v1/snapshot", "/v1/processes", "/v1/sockets":
            self.answer("200 OK", "application/json", self.makeSnapshot().json() + [10], to: connection)
        case "/v1/audit" where self.audit != nil:
            self.answer("200 OK", "application/json", (self.audit?.json() ?? []) + [10], to: connection)
        default:
            let problem = #"{"title":"Not Found","status":404,"detail":"There is nothing at \#(target)."}"#
            self.answer("404 Not Found", "application/problem+json", Array(problem.utf8), to: connection)
        }
    }

    private func answer(_ status: String, _ type: String, _ body: [UInt8], to connection: Int32) {
        let head = "HTTP/1.1 \(status)\r\ncontent-type: \(type)\r\ncontent-length: \(body.count)\r\n\r\n"
        _ = self.send(Array(head.utf8) + body, to: connection)
    }

    private func stream(_ target: Substring, to connection: Int32) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        guard self.send(Array(head.utf8), to: connection) else { return }
        while !self.isStopped {
            var snapshot = self.makeSnapshot()
            if target.contains("view=processes") { snapshot.sockets = nil }
            let line = snapshot.json() + [10]
            guard self.send(Array("\(String(line.count, radix: 16))\r\n".utf8) + line + [13, 10], to: connection) else {
                return
            }
            usleep(100_000)
        }
    }

    private func send(_ bytes: [UInt8], to connection: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}

extension Snapshot {
    /// Three processes: one that serves, one with a hostile name, one idle.
    static func sample(sockets count: Int = 3) -> Snapshot {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let now = Timestamp(nanosecondsSinceEpoch: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        let long = Timestamp(nanosecondsSinceEpoch: now.nanosecondsSinceEpoch - 3_600_000_000_000)
        let web = ProcessIdentity(pid: 812, startBoottimeNanoseconds: 1)
        func process(
            _ identity: ProcessIdentity,
            _ name: String,
            sockets: Int,
            _ payload: PayloadBytes,
            _ rate: Double
        ) -> ProcessUsage {
            ProcessUsage(
                identity: identity,
                details: ProcessDetails(
                    name: name,
                    commandLine: [name, "\u{1b}]0;pwned\u{7}"],
                    uid: 33,
                    user: "www-data"
                ),
                socketsOpen: sockets,
                bytes: ByteCounts(payload: payload),
                rates: PayloadRates(sent: rate, received: 0)
            )
        }
        let sockets = (0..<count).compactMap { index -> SocketUsage? in
            guard let local = InternetAddress("10.0.0.5"), let remote = InternetAddress("192.168.0.\(index % 250 + 1)")
            else {
                return nil
            }
            let payload = PayloadBytes(sent: 1000, received: 10)
            return SocketUsage(
                cookie: SocketCookie(rawValue: UInt64(index + 1)),
                transport: .tcp,
                family: .ipv4,
                local: SocketAddress(address: local, port: 443),
                remote: SocketAddress(address: remote, port: UInt16(30_000 + index)),
                role: .server,
                scope: .localArea,
                state: .established,
                openedAt: long,
                bytes: ByteCounts(payload: payload),
                retransmittedSegments: 3,
                smoothedRoundTripMicroseconds: 1234,
                owners: [.init(identity: web, payload: payload)]
            )
        }
        return Snapshot(
            takenAt: now,
            takenBoottimeNanoseconds: UInt64(now.nanosecondsSinceEpoch),
            countingSince: long,
            host: HostDescription(name: "testhost", bootID: "b", kernel: "6.12"),
            daemon: DaemonDescription(version: "0.1.0", pid: 1, startedAt: long),
            capture: CaptureStatus(method: .fexit, hooks: [], blindSpots: []),
            processes: [
                process(web, "nginx", sockets: count, PayloadBytes(sent: 123_456, received: 7), 5000),
                process(
                    ProcessIdentity(pid: 666, startBoottimeNanoseconds: 2),
                    "\u{1b}[2J\u{1b}]0;pwned\u{7}\u{202e}evil",
                    sockets: 0,
                    PayloadBytes(sent: 1, received: 1),
                    0
                ),
                process(ProcessIdentity(pid: 900, startBoottimeNanoseconds: 3), "idler", sockets: 0, PayloadBytes(), 0),
            ],
            exited: [],
            sockets: sockets,
            interfaces: [],
            totals: Totals(
                bytes: ByteCounts(payload: PayloadBytes(sent: 123_457, received: 8)),
                rates: PayloadRates(sent: 5000, received: 0)
            )
        )
    }
}
