import Foundation
import HTTPTypes
import HummingbirdTesting
import NIOCore
import ServiceLifecycle
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel

@testable import TrafficAPI

extension RouteTests {
    @Test("Doctor measures for the requested time, and the error for a wrong time names the right range")
    func cost() async throws {
        let response = try await self.get("/v1/doctor?cost=0.1")
        let report = try JSONDecoder().decode(DoctorReport.self, from: Data(response.body.readableBytesView))
        #expect(report.cost == FakeMeter.cost(seconds: 0.1))
        #expect(report.checks == self.box.checks())
        let wrong = try await self.get("/v1/doctor?cost=11")
        #expect(String(buffer: wrong.body).contains("'11' is not a number of seconds from 0.1 to 10"))
        #expect(self.meter.measurements == 1)
    }

    @Test("Only administrators may measure, which slows the machine down", arguments: [Viewer.user(1), .network])
    func costWithheld(viewer: Viewer) async throws {
        try self.expectProblem(try await self.get("/v1/doctor?cost=0.1", as: viewer), .forbidden)
        // A wrong time is reported first, before the missing permission.
        try self.expectProblem(try await self.get("/v1/doctor?cost=0", as: viewer), .badRequest, parameter: "cost")
        #expect(self.meter.measurements == 0)
    }

    @Test("The answer quotes the error of a kernel that does not measure")
    func costFails() async throws {
        self.meter.failure = CostError(reason: "bpf_enable_stats(): Operation not permitted")
        let response = try await self.get("/v1/doctor?cost=0.1")
        try self.expectProblem(response, .internalServerError)
        #expect(String(buffer: response.body).contains("bpf_enable_stats(): Operation not permitted"))
    }
}

extension ControlServerTests {
    @Test("Two clients measure at once, each for its own time")
    func costs() async throws {
        try await TestServer.with { server in
            server.meter.isHeld = true
            async let long = server.curl("/v1/doctor?cost=10")
            async let short = server.curl("/v1/doctor?cost=0.1")
            #expect(try await eventually { server.meter.underWay == 2 })
            server.meter.isHeld = false
            for (result, seconds) in [(try await long, 10), (try await short, 0.1)] {
                let report = try JSONDecoder().decode(DoctorReport.self, from: result.outputData)
                #expect(report.cost == FakeMeter.cost(seconds: seconds))
            }
            #expect(server.meter.most == 2 && server.meter.underWay == 0)
            // The answer announces that the connection closes, so that a client does not lose a second request on it.
            let again = ["http://localhost/v1/doctor?cost=0.1", "-v", "--stderr", "-"]
            let twice = try await server.curl("/v1/doctor?cost=0.1", options: again)
            #expect(twice.output.lowercased().components(separatedBy: "< connection: close").count == 3)
            #expect(!twice.output.contains("died") && server.meter.measurements == 4)
        }
    }

    @Test("A client that leaves ends only its own measurement")
    func leftCost() async throws {
        try await TestServer.with { server in
            server.meter.isHeld = true
            async let other = server.curl("/v1/doctor?cost=10")
            let client = try await server.connectAndStall("/v1/doctor?cost=10")
            #expect(try await eventually { server.meter.underWay == 2 })
            try await client.close()
            #expect(try await eventually { server.meter.cancelled == 1 })
            server.meter.isHeld = false
            let report = try JSONDecoder().decode(DoctorReport.self, from: try await other.outputData)
            #expect(report.cost == FakeMeter.cost(seconds: 10))
        }
    }

    @Test("A measurement does not delay the daemon's end")
    func stoppedCost() async throws {
        // The limit of the daemon's end would close the connection instead.
        var limits = ControlServer.Limits()
        limits.shutdownTimeout = .seconds(3600)
        try await TestServer.with(limits: limits) { server in
            server.meter.isHeld = true
            async let answer = server.curl("/v1/doctor?cost=10", options: ["-w", "%{http_code}"])
            #expect(try await eventually { server.meter.underWay == 1 })
            await server.group.triggerGracefulShutdown()
            let result = try await answer
            #expect(result.output.hasSuffix("503"))
            #expect(server.meter.cancelled == 1)
        }
    }
}
