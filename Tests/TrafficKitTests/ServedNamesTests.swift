import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Names that strangers choose")
struct ServedNamesTests {
    @Test("only the first hosts with known paths have a name, however many are asked for")
    func hosts() {
        let names = ServedNames(own: nil)
        let host = { (host: String, route: String) in names.name(host: host, route: route, isPath: false).host }
        #expect(host("junk", ServedNames.unmatched) == "_other")
        #expect(host(String(repeating: "a", count: 254), "/") == "_other")
        for index in 0..<ServedNames.mostHosts { #expect(host("h\(index)", "/") == "h\(index)") }
        #expect(host("one more", "/") == "_other")
        for route in ["/", ServedNames.unmatched] { #expect(host("h0", route) == "h0" && host("h31", route) == "h31") }
    }

    @Test("only hosts that the app lists as its own have a name, and they always have it")
    func ownHosts() {
        let names = ServedNames(own: ["API.example"])
        #expect(names.name(host: "junk", route: "/", isPath: false) == ("_other", "/"))
        #expect(names.name(host: "api.example", route: "/a", isPath: true) == ("api.example", "/a"))
        let none = ServedNames(own: [])
        #expect(none.name(host: "api.example", route: "/a", isPath: true) == ("_other", "/a"))
    }

    @Test("paths: the first ones with their hosts; templates have no bound")
    func paths() {
        let names = ServedNames(own: nil)
        let route = { (host: String, route: String) in names.name(host: host, route: route, isPath: true).route }
        for index in 0..<ServedNames.mostPaths {
            #expect(route("h\(index % 2)", "/\(index / 2)/x") == "/\(index / 2)/x")
        }
        #expect(route("h0", "/one/more") == "_other" && route("h2", "/0/x") == "_other")
        #expect(route("h0", "/0/x") == "/0/x" && route("h1", "/499/x") == "/499/x")
        #expect(names.name(host: "h0", route: "/one/more", isPath: false) == ("h0", "/one/more"))
    }

    @Test(
        "connections of one monitor share the bound, and a client has none",
        arguments: [Report.Role.server, .client]
    )
    func connections(role: Report.Role) throws {
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", hosts: ["h"]))
        let words = ["alpha", "beta", "gamma", "delta", "epsilon"]
        let count = 2 * ServedNames.mostPaths
        for round in 0..<2 {
            for index in 0..<count {
                let path = "/" + String(index, radix: 5).map { words[$0.wholeNumberValue!] }.joined(separator: "/")
                let isNamed = role == .client || index < ServedNames.mostPaths
                let reporter = TrafficReporter(monitor, role: role)
                for _ in 0..<2 {
                    let name = reporter.name(of: .init(method: "GET", target: path, host: "H:80"))
                    #expect(name == .init(method: "GET", host: "h", route: isNamed ? path : "_other"), "\(round)")
                }
                let name = monitor.name(method: "GET", host: "h", target: path, role: role)
                #expect(name?.route == (isNamed ? path : "_other"))
            }
        }
        let name = TrafficReporter(monitor, role: role).name(of: .init(method: "GET", target: "/", host: "junk"))
        #expect(name?.host == (role == .client ? "junk" : "_other"))
        let template = monitor.name(method: "GET", host: "h", target: "/x", template: "/{x}", role: role)
        #expect(template?.route == "/{x}")
    }

    @Test("a path that the router does not know gets the name of a pattern that fits, or no name")
    func unmatched() throws {
        let naming = RouteNaming(patterns: [try .init("/files/**")])
        #expect(naming.route(of: "/files/a/b", .unmatched) == ("/files/**", false))
        #expect(naming.route(of: "/junk/a?b", .unmatched) == ("_unmatched", false))
        #expect(naming.route(of: "*", .unmatched) == ("_unmatched", false))
        #expect(naming.route(of: "/junk/1", .path) == ("/junk/{id}", true))
        #expect(naming.route(of: "/junk/1", .template("/junk/{x}")) == ("/junk/{x}", false))
    }
}
