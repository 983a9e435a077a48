import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// Three processes of one executable: the example's server and two customers.
    @Suite(.needsBPF, .needs("curl"))
    struct OwnEndpointTests {
        /// The requests of a visit, as in ReportTests.
        private static let requestsOfVisit: UInt64 = 14

        private func own(_ snapshot: Snapshot, _ program: Program) -> [ProcessEndpoint]? {
            snapshot.processes?.first { $0.identity.pid == program.pid }?.endpoints
        }

        private func requests(_ snapshot: Snapshot, _ program: Program) -> UInt64 {
            (self.own(snapshot, program) ?? []).reduce(0) { $0 + $1.requests }
        }

        private func responses(_ snapshot: Snapshot, _ program: Program) -> UInt64 {
            (self.own(snapshot, program) ?? []).reduce(0) { $0 + $1.responses }
        }

        @Test("a running process has only its own endpoints, with as many requests as it counts itself")
        func shop() async throws {
            try await withDaemon { daemon in
                let example = Machine.programs.directory.appending(path: "trafficexample")
                let port = String(try FreePort.next())
                let options = ["--port", port, "--report-socket", daemon.directories.reportSocket.path]
                let server = try Program(example, ["serve"] + options)
                let retry = ["--retry", "60", "--retry-connrefused", "--retry-delay", "1", "--silent", "--fail"]
                let curl = try await Program.run(
                    try #require(Machine.path(of: "curl")),
                    retry + ["http://127.0.0.1:\(port)/orders/1"]
                )
                try #require(curl.code == 0, "\(server.errorText)")

                // A customer visits at once, and then waits for a signal: it lives as long as the look below takes.
                let buy = ["buy", "--seconds", "3600", "--rate", "0.001", "--timeout", "600"] + options
                let customers = try [1, 3].map { try Program(example, buy + ["--visitors", "\($0)"]) }
                var snapshot = try await look(until: { snapshot in
                    self.responses(snapshot, customers[0]) == Self.requestsOfVisit
                        && self.responses(snapshot, customers[1]) == 3 * Self.requestsOfVisit
                        && self.responses(snapshot, server) == 4 * Self.requestsOfVisit + 1
                }) { try await daemon.snapshot() }

                var visits: UInt64 = 0
                for customer in customers {
                    customer.signal(SIGINT)
                    let told = String(decoding: try #require(try await customer.line()), as: UTF8.self)
                    let count = try #require(UInt64(told.dropFirst("visits: ".count)))
                    #expect(try await customer.exit() == 0, "\(customer.errorText)")
                    #expect(self.requests(snapshot, customer) == count * Self.requestsOfVisit)
                    #expect(self.own(snapshot, customer)?.allSatisfy { $0.role == .client } == true)
                    visits += count
                }
                #expect(visits == 4 && self.requests(snapshot, server) == visits * Self.requestsOfVisit + 1)
                #expect(self.own(snapshot, server)?.allSatisfy { $0.role == .server } == true)
                self.expectSums(snapshot, [server] + customers)

                // The endpoints of processes that exited are gone, and nothing is missing from the sums.
                snapshot = try await look(until: { self.own($0, customers[1]) == nil }) {
                    try await daemon.snapshot()
                }
                #expect(customers.allSatisfy { self.own(snapshot, $0) == nil })
                #expect(self.requests(snapshot, server) == visits * Self.requestsOfVisit + 1)
                let clients = (snapshot.endpoints ?? []).filter { $0.role == .client }
                #expect(clients.reduce(0) { $0 + $1.requests } == visits * Self.requestsOfVisit)
                server.signal(SIGTERM)
                _ = try await server.exit()
            }
        }

        /// The endpoints of the executable are the sums of the processes' own endpoints, to the byte.
        private func expectSums(_ snapshot: Snapshot, _ programs: [Program]) {
            let endpoints = snapshot.endpoints ?? []
            #expect(!endpoints.isEmpty)
            for endpoint in endpoints {
                let parts = programs.flatMap { self.own(snapshot, $0) ?? [] }.filter {
                    $0.role == endpoint.role && .route(host: $0.host, route: $0.route) == endpoint.subject
                }
                #expect(parts.reduce(0) { $0 + $1.requests } == endpoint.requests)
                #expect(parts.reduce(0) { $0 + $1.responses } == endpoint.responses)
                #expect(parts.reduce(0) { $0 + $1.failures } == endpoint.failures)
                #expect(parts.reduce(0) { $0 + $1.sent } == endpoint.sent.message)
                #expect(parts.reduce(0) { $0 + $1.received } == endpoint.received.message)
            }
        }
    }
}
