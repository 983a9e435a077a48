import HTTPCalls
import Testing

@Suite("Targets of requests")
struct HTTPTargetTests {
    @Test(
        "a URL has a place, a Host and what to ask for",
        arguments: [
            ("http://h", "h", 80, "h", "/"), ("https://h/a/b?c=d&e", "h", 443, "h", "/a/b?c=d&e"),
            ("HTTP://h:8080?x", "h", 8_080, "h:8080", "/?x"),
            ("http://[::1]:4318/v1/metrics", "::1", 4_318, "[::1]:4318", "/v1/metrics"),
            ("http://me:word@h:1/a%20b#c", "h", 1, "h:1", "/a%20b"),
        ]
    )
    func parts(url: String, host: String, port: Int, authority: String, path: String) throws {
        let target = try #require(HTTPTarget(url))
        #expect(target.host == host && target.port == port && target.authority == authority && target.path == path)
        #expect(target.isEncrypted == url.hasPrefix("https"))
    }

    @Test("other texts are refused", arguments: ["", "h", "ftp://h/", "http:///a", "/a"])
    func others(text: String) { #expect(HTTPTarget(text) == nil) }
}
