import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel

@testable import TrafficAPI

extension RouteTests {
    @Test("Doctor has a check for each receiver of metrics, but none for a user who sees only their own programs")
    func receivers() async throws {
        var (well, away) = (PushStatus(destination: "http://a"), PushStatus(destination: "http://b"))
        (well.delivered, well.lastDelivery) = (7, Timestamp(nanosecondsSinceEpoch: 0))
        (away.failed, away.waiting, away.dropped, away.problem) = (3, 2, 1, "it answers 503")
        func checks(_ viewer: Viewer) async throws -> ArraySlice<DoctorReport.Check> {
            let router = ControlAPI.router(
                source: self.box,
                cost: self.meter,
                alerts: FakeAlerts(),
                receivers: { [well, away] in [well, away, PushStatus(destination: "http://c")] },
                access: .fixed(viewer)
            )
            let answer = try await Application(router: router).test(.router) { client in
                try await client.executeRequest(uri: "/v1/doctor", method: .get, headers: [:], body: nil)
            }
            let report = try JSONDecoder().decode(DoctorReport.self, from: Data(answer.body.readableBytesView))
            return report.checks.dropFirst(self.box.checks().count)
        }
        for viewer in [Viewer.administrator, .network] {
            let checks = try await checks(viewer)
            let reason = viewer == .administrator ? "it answers 503" : "the last request did not succeed as a whole"
            #expect(checks.map(\.name) == ["push to http://a", "push to http://b", "push to http://c"])
            #expect(checks.map(\.status) == [.ok, .degraded, .ok])
            #expect(
                checks.map(\.detail) == [
                    "the last request was taken at 1970-01-01T00:00:00.000Z",
                    "\(reason); 2 requests waiting; 1 request deleted before the receiver took them",
                    "no request was sent yet",
                ]
            )
            #expect(checks.map { $0.remedy != nil } == [false, true, false])
        }
        #expect(try await checks(.user(1)).isEmpty)
    }
}
