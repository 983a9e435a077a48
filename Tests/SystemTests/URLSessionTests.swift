import Foundation
import GroundTruth
import Synchronization
import TestSupport
import Testing
import TrafficEvents
import TrafficKitTestSupport
import TrafficModel
import TrafficReport

extension SurfaceTests {
    /// TrafficSession over TLS, compared with nginx, which counts plaintext, and the kernel, which counts ciphertext.
    @Suite(.tags(.peer), .needsBPF, .needs("nginx", "openssl", "unshare", "mount"))
    struct URLSessionTests {
        private static let authorities = "/etc/ssl/certs/ca-certificates.crt"

        struct Asked: Sendable {
            var method: String
            var path: String
            var body = 0
        }

        private static let asked: [Asked] =
            [
                .init(method: "GET", path: "/file"), .init(method: "GET", path: "/none?secret=1"),
                .init(method: "GET", path: "/text"), .init(method: "HEAD", path: "/file"),
                .init(method: "POST", path: "/post/a", body: 3), .init(method: "POST", path: "/post/a", body: 70_000),
                .init(method: "POST", path: "/post/a"), .init(method: "PUT", path: "/put/b", body: 1),
                .init(method: "PUT", path: "/put/b", body: 1_000_003), .init(method: "GET", path: "/br/none"),
                .init(method: "GET", path: "/to/1"),
            ] + (0..<20).map { .init(method: "GET", path: $0 % 4 == 0 ? "/file" : "/none?n=\($0)") }

        /// URLSession in a process of its own, which trusts only the certificate authority of the tests.
        private struct Fetch {
            private let program: Program

            init(_ client: String, reportingTo socket: String) async throws {
                let command = "mount --bind \"$0\" \(URLSessionTests.authorities) && exec \"$@\""
                let fetch = Machine.programs.directory.appending(path: "trafficfetch").path
                self.program = try Program(
                    try #require(Machine.path(of: "unshare")),
                    ["--mount", "sh", "-c", command, try await Certificates.local.authority, fetch, client, socket]
                )
            }

            var pid: pid_t { self.program.pid }

            /// - Parameter count: How many requests run at once.
            /// - Returns: Lines of JSON.
            func ask(_ asked: [Asked], of server: String, atOnce count: Int = 1) async throws -> [String] {
                var results: [String] = []
                for start in stride(from: 0, to: asked.count, by: count) {
                    let some = asked[start..<min(start + count, asked.count)]
                    let texts = some.map { "\($0.method) \(server)\($0.path) \($0.body)" }
                    try self.program.writeLine(texts.joined(separator: ","))
                    for _ in some {
                        let line = try await self.program.line()
                        results.append(String(decoding: try #require(line, "\(self.program.errorText)"), as: UTF8.self))
                    }
                }
                return results
            }

            func end() async throws {
                self.program.closeInput()
                #expect(try await self.program.exit() == 0, "\(self.program.errorText)")
            }
        }

        /// The log once it has this many exchanges: nginx writes an entry after it has sent the last byte.
        private func log(of nginx: Nginx, exchanges: Int) async throws -> [Nginx.Entry] {
            try await look(until: { $0.count >= exchanges }) { try nginx.log() }
        }

        @Test("the same status, fields and bodies, requests and connections, with TrafficKit and without")
        func same() async throws {
            var expected: (results: [String], log: [Nginx.Entry])?
            for client in ["plain", "wrapped", "stopped", "observed"] {
                let nginx = try await Nginx()
                let fetch = try await Fetch(client, reportingTo: "/nowhere/report.sock")
                let results = try await fetch.ask(Self.asked, of: "https://localhost:\(nginx.tlsPort)")
                try await fetch.end()
                var log = try await self.log(of: nginx, exchanges: Self.asked.count + 1)
                try await nginx.stop()
                let first = try #require(log.first?.connection)
                for index in log.indices { log[index].connection -= first }
                guard let plain = expected else {
                    expected = (results, log)
                    #expect(log.count == Self.asked.count + 1 && Set(log.map(\.tls)) == ["TLSv1.3"])
                    #expect(Set(log.map(\.status)) == [200, 201, 204, 302, 404])
                    continue
                }
                #expect(results.count == plain.results.count)
                for (one, other) in zip(results, plain.results) {
                    let isSame = one == other
                    // These lines come after the body, which is long.
                    #expect(isSame, "\(client): \(one.suffix(400)) and not \(other.suffix(400))")
                }
                #expect(log == plain.log, "\(client)")
            }
        }

        /// The process's reports, from the daemon's recording.
        private func records(in recording: URL, of pid: pid_t) throws -> Records {
            struct Event: Decodable {
                struct Reports: Decodable { var _0: [ReceivedReport] }
                var reports: Reports?
            }
            let records = Records()
            for line in try String(contentsOf: recording, encoding: .utf8).split(separator: "\n") {
                let event = try JSONDecoder().decode(Event.self, from: Data(line.utf8))
                for report in event.reports?._0 ?? [] where report.pid == pid {
                    var reader = ReportReader()
                    _ = try reader.read(report.datagram.span) { records.observe(copy $0) }
                }
            }
            return records
        }

        /// The session's sockets, once the daemon has settled this many exchanges, each with a request and a response.
        private func sockets(_ daemon: Daemon, of pid: pid_t, exchanges: Int) async throws -> [SocketUsage] {
            let snapshot = try await look(until: {
                $0.capture.reports.records >= exchanges && $0.capture.reports.inferred >= 2 * exchanges
            }) { try await daemon.snapshot() }
            let reports = snapshot.capture.reports
            #expect(reports.inferred == 2 * exchanges)
            #expect(reports.rejected == 0 && reports.dropped == 0)
            return (snapshot.sockets ?? []).filter { socket in
                socket.transport == .tcp && socket.owners.contains { $0.identity.pid == pid }
            }
        }

        /// What the daemon, the session and nginx say of the exchanges of one session.
        private struct Fetched {
            /// The session's socket, open and then closed, if the daemon listed it.
            var used: [SocketUsage] = []
            var endpoints: [EndpointUsage] = []
            var records = Records()
            var log: [Nginx.Entry] = []
        }

        private func fetch(tls version: String) async throws -> Fetched {
            var fetched = Fetched()
            let directories = try DaemonDirectories()
            let recording = directories.root.appending(path: "events.ndjson")
            let nginx = try await Nginx(tls: version)
            // The redirect leads to a second exchange.
            let count = Self.asked.count + 1
            var pid: pid_t = 0
            let arguments = ["--keep-closed", "600", "--record-events", recording.path]
            try await withDaemon(directories: directories, arguments: arguments) { daemon in
                let fetch = try await Fetch("wrapped", reportingTo: daemon.directories.reportSocket.path)
                pid = fetch.pid
                _ = try await fetch.ask(Self.asked, of: "https://localhost:\(nginx.tlsPort)")
                fetched.used += try await self.sockets(daemon, of: pid, exchanges: count)
                try await fetch.end()
                fetched.used += try await self.sockets(daemon, of: pid, exchanges: count)
                fetched.endpoints = try await daemon.snapshot().endpoints ?? []
            }
            fetched.log = try await self.log(of: nginx, exchanges: count)
            try await nginx.stop()
            fetched.records = try self.records(in: recording, of: pid)
            return fetched
        }

        /// - Parameters:
        /// - overhead: The bytes of a record with AES-GCM beyond its plaintext: RFC 5288 section 3, RFC 8446 section
        /// 5.2.
        ///   - alert: The length of a record with the alert `close_notify`.
        @Test(
            "the kernel's counts are explained; bodies are reported, and the rest is at least what nginx counts",
            arguments: [("1.2", 29, 31), ("1.3", 22, 24)] as [(String, UInt64, UInt64)]
        )
        func explained(version: String, overhead: UInt64, alert: UInt64) async throws {
            // Other tests may close so many sockets that this one has left the list. Then another fetch shows it as well.
            let fetched = try await look(until: { $0.used.count == 2 }) { try await self.fetch(tls: "TLSv\(version)") }
            let (used, endpoints, log) = (fetched.used, fetched.endpoints, fetched.log)
            try #require(used.count == 2 && used[0].closedAt == nil && used[1].closedAt != nil)
            #expect(log.allSatisfy { $0.tls == "TLSv\(version)" } && Set(log.map(\.connection)).count == 1)
            let records = fetched.records
            let (requests, responses) = (records.requests, records.responses)
            try #require(requests.count == log.count && responses.count == log.count)

            // While the socket is open, every byte is explained. At its end there is an alert, which belongs to no
            // exchange.
            let explained = records.bytes(role: .client)
            for socket in used { #expect(socket.explained == explained.toServer + explained.toClient) }
            #expect(used[0].bytes.payload.sent == explained.toServer)
            #expect(used[0].bytes.payload.received == explained.toClient)
            #expect(used[1].bytes.payload.sent == explained.toServer + alert)
            #expect(used[1].bytes.payload.received == explained.toClient)
            for messages in [requests, responses] {
                #expect(messages.first?.interval.from == 0)
                #expect(zip(messages, messages.dropFirst()).allSatisfy { $0.interval.to == $1.interval.from })
                for message in messages {
                    #expect(message.interval.bytes == message.messageBytes + message.tlsBytes)
                    #expect(message.cookie == used[0].cookie.rawValue && message.quality == .inferred)
                    // Not reported separately: these bytes are among the bytes of TLS.
                    #expect(message.messageBytes == message.bodyBytes && message.cookieBytes == 0)
                    #expect(message.version == .unknown)
                }
            }

            // No request after the redirect has a body, and neither has the request to the redirect's target.
            #expect(requests.map(\.bodyBytes) == Self.asked.map { UInt64($0.body) } + [0])
            for (index, entry) in log.enumerated() {
                let isEncoded = entry.target == "/text"
                #expect(isEncoded || responses[index].bodyBytes == entry.bodyBytes, "\(entry)")
                // The first exchange also has the handshake.
                guard index > 0 else { continue }
                let beside = [
                    requests[index].interval.bytes - entry.requestBytes,
                    responses[index].interval.bytes - entry.responseBytes,
                ]
                // Only records, each of at most 16 KiB.
                for (beside, plaintext) in zip(beside, [entry.requestBytes, entry.responseBytes]) {
                    #expect(beside % overhead == 0 && beside / overhead >= (plaintext + 16_383) / 16_384, "\(entry)")
                }
                if requests[index].bodyBytes == 0 { #expect(beside[0] == overhead, "\(entry)") }
            }
            let text = try #require(responses.first { $0.decodedBodyBytes == UInt64(Nginx.text.utf8.count) })
            #expect(text.bodyBytes == 0 && text.contentClass == .text)

            #expect(endpoints.count > 4)
            #expect(endpoints.allSatisfy { $0.quality == .inferred && $0.role == .client && $0.host == "localhost" })
            #expect(endpoints.reduce(0) { $0 + $1.requests } == log.count)
            #expect(endpoints.reduce(0) { $0 + $1.sent.total } == explained.toServer)
            #expect(endpoints.reduce(0) { $0 + $1.received.total } == explained.toClient)
        }

        @Test("exchanges that overlap claim no socket's bytes; their bodies are right")
        func overlapping() async throws {
            let directories = try DaemonDirectories()
            let recording = directories.root.appending(path: "events.ndjson")
            // The server answers when all four requests have come. So they overlap, even on a slow machine.
            let arrived = Mutex(0)
            let server = try RawServer { connection in
                _ = connection.readHead()
                let place = arrived.withLock { count in
                    count += 1
                    return count
                }
                while arrived.withLock({ $0 }) < (place + 3) / 4 * 4 { usleep(1_000) }
                connection.send("HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nanswer".utf8)
            }
            let nginx = try await Nginx(passingTo: server.port)
            let asked = (0..<40).map { Asked(method: "POST", path: "/passed/a", body: 1_000 * $0 + 1) }
            let pid = try await withDaemon(directories: directories, arguments: ["--record-events", recording.path]) {
                daemon in
                let fetch = try await Fetch("wrapped", reportingTo: daemon.directories.reportSocket.path)
                _ = try await fetch.ask(asked, of: "https://localhost:\(nginx.tlsPort)", atOnce: 4)
                let sockets = try await self.sockets(daemon, of: fetch.pid, exchanges: asked.count)
                #expect(sockets.count == 4 && sockets.allSatisfy { $0.explained == 0 && $0.bytes.payload.total > 0 })
                try await fetch.end()
                return fetch.pid
            }
            server.stop()
            let log = try await self.log(of: nginx, exchanges: asked.count)
            try await nginx.stop()
            let records = try self.records(in: recording, of: pid)
            #expect(log.count == asked.count && records.requests.count == asked.count)
            #expect(Set(records.requests.map(\.bodyBytes)) == Set(asked.map { UInt64($0.body) }))
            #expect(records.responses.map(\.bodyBytes) == log.map(\.bodyBytes))
            for message in records.requests + records.responses {
                #expect(message.cookie == 0 && message.interval.isEmpty && message.quality == .inferred)
                #expect(message.tlsBytes == 0)
            }
        }
    }
}
