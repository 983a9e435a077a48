import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Known names")
struct KnownNamesTests {
    @Test("every request has its own name, however many there are, and one that comes again at once has the same")
    func names() {
        var known = KnownNames()
        var random = SystemRandomNumberGenerator()
        let routes = (0..<40).map { "/route/\($0)/{id}" } + ["/" + String(repeating: "long/", count: 100), ""]
        for _ in 0..<20_000 {
            let request = HTTP1Head.Request(
                method: ["GET", "PUT"].randomElement(using: &random)!,
                target: "/",
                host: ["one", "TWO:80", "three"].randomElement(using: &random)!
            )
            let route = routes.randomElement(using: &random)!
            let name = known.name(of: request, route: route)
            let host = request.host == "TWO:80" ? "two" : request.host
            #expect(name == Report.Name(method: request.method, host: host, route: route))
            // Long ones are not kept.
            #expect(known.name(of: request, route: route).isIdentical(to: name) == (route.utf8.count <= 128))
        }
    }
}
