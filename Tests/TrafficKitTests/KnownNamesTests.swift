import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Known names")
struct KnownNamesTests {
    @Test("every request has its own name, however many there are, and a repeated request gets the same name")
    func names() {
        var known = KnownNames()
        let name = { (request: MessageHead.Request, route: String) -> Report.Name in
            if let name = known.name(of: request, route: route) { return name }
            let host = HostNaming.host(of: request.host)
            let made = Report.Name(method: request.method, host: host, route: route)
            if KnownNames.mayStay(request, route: route) { known.keep(made, of: request) }
            return made
        }
        var random = SystemRandomNumberGenerator()
        let long = String(repeating: "l", count: 200)
        let routes = (0..<40).map { "/route/\($0)/{id}" } + ["/" + String(repeating: "long/", count: 100), ""]
        for _ in 0..<20_000 {
            let request = MessageHead.Request(
                method: ["GET", "PUT"].randomElement(using: &random)!,
                target: "/",
                host: ["one", "TWO:80", "three", "user:pass@one", long].randomElement(using: &random)!
            )
            let route = routes.randomElement(using: &random)!
            let made = name(request, route)
            let host = ["TWO:80": "two", "user:pass@one": "one"][request.host] ?? request.host
            #expect(made == Report.Name(method: request.method, host: host, route: route))
            let isKept = route.utf8.count <= 128 && request.host != long && !request.host.contains("@")
            #expect(name(request, route).isIdentical(to: made) == isKept)
        }
    }
}
