import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import Testing
import TrafficFeed
import TrafficModel
import TrafficPage

@testable import TrafficAPI

@Suite("The page at /")
struct PageRouteTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/TrafficPage/Page")

    private func get(_ path: String) async throws -> TestResponse {
        let router = ControlAPI.router(
            source: ReadingBox(),
            cost: FakeMeter(),
            alerts: FakeAlerts(),
            access: .fixed(.network)
        )
        return try await Application(router: router).test(.router) { client in
            try await client.executeRequest(uri: path, method: .get, headers: [:], body: nil)
        }
    }

    @Test("each file of the folder is served as it is, with its type and the policy of the page")
    func files() async throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(names.filter { !$0.hasSuffix(".LICENSE") }) == Set(PageFile.all.map(\.name)))
        for (path, name) in PageFile.all.map({ ($0.path, $0.name) }) {
            let response = try await self.get(path)
            #expect(response.status == .ok, "\(path)")
            let contents = [UInt8](try Data(contentsOf: Self.folder.appending(path: name)))
            #expect(Array(response.body.readableBytesView) == contents, "\(path)")
            let types = [
                "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
                "css": "text/css; charset=utf-8", "svg": "image/svg+xml",
            ]
            let type = try #require(types[String(name.split(separator: ".").last ?? "")], "\(name)")
            #expect(response.headers[.contentType] == type, "\(path)")
            let policy = try #require(response.headers[.contentSecurityPolicy])
            #expect(policy.contains("default-src 'none'") && policy.contains("require-trusted-types-for 'script'"))
            #expect(!policy.contains("unsafe") && !policy.contains("*") && !policy.contains("http"))
        }
        let missing = try await self.get("/page/other.js")
        #expect(missing.status == .notFound)
    }
}
