import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Testing
import TrafficAudit
import TrafficFeed
import TrafficModel

@testable import TrafficAPI

@Suite("The audit over the control API")
struct AuditRouteTests {
    private let routes = RouteTests()

    init() {
        var snapshot = Fixture.snapshot()
        var evidence = AuditEvidence()
        evidence.forgottenSockets.sent[.payload] = 100
        evidence.forgottenSocketsOf[Fixture.root.identity] = AuditTallies(sentPayload: 60)
        evidence.forgottenSocketsOf[Fixture.nobody.identity] = AuditTallies(sentPayload: 40)
        snapshot.interfaces?[0].evidence = InterfaceEvidence(
            sent: .init(counterBytes: 10, counterPackets: 1, seen: .init(packets: 1, ip: 10, noSocket: 10)),
            received: .init(counterBytes: 5, counterPackets: 1, seen: .init(packets: 1, ip: 5, socket: 7))
        )
        self.routes.box.readings.publish(Reading(snapshot: snapshot, evidence: evidence))
    }

    private func audit(_ query: String, as viewer: Viewer = .administrator) async throws -> AuditReport {
        let response = try await self.routes.get("/v1/audit\(query)", as: viewer)
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "application/json")
        return try JSONDecoder().decode(AuditReport.self, from: Data(response.body.readableBytesView))
    }

    @Test("the host, an interface, a process and a socket each have their account")
    func subjects() async throws {
        let host = try await self.audit("")
        #expect(host.sections.map(\.kind) == [.host, .interface])
        #expect(host.sections[0].sent.first == .init(line: .payload, bytes: 100))
        #expect(host.unexplained == 2)
        let interface = try await self.audit("?interface=lo")
        #expect(interface.sections.map(\.name) == ["lo"])
        #expect(interface.sections[0].received.contains(.init(line: .unexplainedAtInterface, bytes: -2)))
        let process = try await self.audit("?process=20")
        #expect(process.sections[0].sent.first == .init(line: .payload, bytes: 40))
        let socket = try await self.audit("?socket=2")
        #expect(socket.sections.map(\.kind) == [.socket])
    }

    @Test("a user may audit only its own processes, and the network may audit nothing")
    func access() async throws {
        let own = try await self.audit("?process=20", as: .user(65_534))
        #expect(own.sections[0].sent.first == .init(line: .payload, bytes: 40))
        for query in ["", "?interface=lo"] {
            let response = try await self.routes.get("/v1/audit\(query)", as: .user(65_534))
            try self.routes.expectProblem(response, .forbidden)
        }
        for query in ["?process=10", "?socket=1"] {
            let response = try await self.routes.get("/v1/audit\(query)", as: .user(65_534))
            try self.routes.expectProblem(response, .notFound)
        }
        for query in ["", "?process=20", "?socket=2"] {
            let response = try await self.routes.get("/v1/audit\(query)", as: .network)
            try self.routes.expectProblem(response, .forbidden)
        }
    }

    @Test(
        "the error names a misspelt or missing subject",
        arguments: [
            ("?process=-1", .badRequest, "process"), ("?process=x", .badRequest, "process"),
            ("?socket=", .badRequest, "socket"),
            ("?proces=1", .badRequest, "proces"), ("?process=20&socket=2", .badRequest, nil),
            ("?interface=eth9", .notFound, nil),
            ("?process=99", .notFound, nil), ("?socket=99", .notFound, nil),
        ] as [(String, HTTPResponse.Status, String?)]
    )
    func mistakes(query: String, status: HTTPResponse.Status, parameter: String?) async throws {
        let response = try await self.routes.get("/v1/audit\(query)")
        try self.routes.expectProblem(response, status, parameter: parameter)
    }
}

extension AuditTallies {
    fileprivate init(sentPayload: Int64) {
        self.init()
        self.sent[.payload] = sentPayload
    }
}
