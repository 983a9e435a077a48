import Testing

@testable import TrafficKit

@Suite("Route naming")
struct RouteNamingTests {
    @Test(
        "parts that differ from caller to caller become placeholders, and words stay",
        arguments: [
            ("/", "/"), ("", "/"), ("*", "*"), ("//", "/"),
            ("/users/1", "/users/{id}"), ("/users/2/", "/users/{id}/"), ("/users/1?a=1&b=secret", "/users/{id}"),
            ("/search?q=x#y", "/search"), ("/v2/http2/utf-8", "/v2/http2/utf-8"), ("/api/1.0/items", "/api/1.0/items"),
            ("/a/2026-11-21/b", "/a/{id}/b"), ("/range/1-20", "/range/{id}"),
            ("/orders/order-12345", "/orders/{id}"), ("/orders/order-123", "/orders/order-123"),
            ("/f/3F2504E0-4F89-11D3-9A0C-0305E82C3301", "/f/{id}"),
            ("/f/{3f2504e0-4f89-11d3-9a0c-0305e82c3301}", "/f/{id}"),
            ("/blob/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/blob/{id}"),
            ("/blob/deadbeefdeadbeef", "/blob/deadbeefdeadbeef"),
            ("/static/main.3f2a9c1b.js", "/static/main.{id}.js"), ("/static/jquery.min.js", "/static/jquery.min.js"),
            ("/images/thing-1001.png", "/images/{id}.png"), ("/images/4711.png", "/images/{id}.png"),
            ("/lib/jquery-3.7.1.js", "/lib/jquery-3.7.1.js"), ("/v1.12.100/x", "/v1.12.100/x"),
            ("/t/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "/t/{id}"), ("/u/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/u/{id}"),
            ("/blog/how-to-configure-http2-on-a-small-server", "/blog/how-to-configure-http2-on-a-small-server"),
            ("/blog/AnIntroductionToSwiftConcurrency", "/blog/AnIntroductionToSwiftConcurrency"),
            ("/mail/someone@example.org", "/mail/{id}"), ("/files/a%20b", "/files/{id}"), ("/straße/1", "/{id}/{id}"),
            ("/hosts/192.0.2.17/up", "/hosts/{id}/up"),
            ("https://user:word@api.example:8443/users/7?x", "/users/{id}"), ("http://api.example", "/"),
            ("/redirect/http://a/b", "/redirect/http:/a/b"),
            // The query begins at the byte `?`, even if the next scalar combines with it on a screen.
            ("/users/a?\u{301}secret", "/users/a"),
            ("/1/2/3/4/5/6/7/8/9/10/11/12/13/14", String(repeating: "/{id}", count: 12) + "/**"),
            ("/" + String(repeating: "x", count: 65), "/{id}"),
            // The most by which a name can be longer than its path.
            (String(repeating: "/1", count: 12), String(repeating: "/{id}", count: 12)),
            (String(repeating: "/1", count: 12) + "/", String(repeating: "/{id}", count: 12) + "/"),
            ("1", "/{id}"), ("1/1/1", "/{id}/{id}/{id}"), ("//a//1//", "/a/{id}/"),
            ("/a.1234.1234", "/a.{id}.{id}"), ("/a.1234.", "/a.{id}."), ("/a.", "/a."), ("/.", "/."), ("/..", "/.."),
        ]
    )
    func fixedRules(target: String, route: String) {
        #expect(RouteNaming().route(of: target) == route)
    }

    @Test("the app's template comes first, then the first pattern that fits")
    func order() throws {
        let naming = RouteNaming(
            patterns: [
                try .init("/users/{user}/posts/:post"), try .init("/users/{user}"), try .init("/files/**"),
                try .init("/me"),
            ]
        )
        #expect(naming.route(of: "/users/ann/posts/first?x=1") == "/users/{user}/posts/:post")
        #expect(naming.route(of: "/users/ann") == "/users/{user}")
        #expect(naming.route(of: "/users/ann/") == "/users/{user}")
        #expect(naming.route(of: "/users/ann/other/thing") == "/users/ann/other/thing")
        #expect(naming.route(of: "/files") == "/files/**")
        #expect(naming.route(of: "/files/a/b/c") == "/files/**")
        #expect(naming.route(of: "/me") == "/me")
        #expect(naming.route(of: "/users/1", template: "/users/:id") == "/users/:id")
    }

    @Test("an invalid pattern is refused, and the error names it", arguments: ["", "users", "/a/**/b"])
    func invalid(_ text: String) {
        let error = #expect(throws: RouteNaming.InvalidPattern.self) { try RouteNaming.Pattern(text) }
        #expect(error?.text == text)
    }

    @Test("a name stays the same when it is named again")
    func stable() {
        let naming = RouteNaming()
        for target in ["/users/1", "/f/da39a3ee5e6b4b0d3255bfef95601890afd80709/x", "/1/2/3/4/5/6/7/8/9/10/11/12/13"] {
            let route = naming.route(of: target)
            #expect(naming.route(of: route) == route)
        }
    }

    @Test(
        "a host has no user and no port, and is in lower case",
        arguments: [
            ("api.example", "api.example"), ("API.Example:8080", "api.example"), ("api.example:", "api.example"),
            ("user:word@api.example:80", "api.example"), ("a@b@c", "c"), ("127.0.0.1:80", "127.0.0.1"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"), ("[::1", "[::1"), ("2001:db8::1", "2001:db8::1"),
            ("a:b", "a:b"), ("", ""), ("BÜCHER.example", "bücher.example"),
        ]
    )
    func hosts(authority: String, host: String) {
        #expect(HostNaming.host(of: authority) == host)
    }
}
