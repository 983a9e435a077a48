import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@Suite("Both directions of a TLS connection")
struct TLSAccountTests {
    private final class Routes: RouteSource {
        func takeRoute(ofRequest number: Int) -> RouteAnswer { .template("/users/{user}") }
    }

    /// A record of application data (RFC 8446 section 5.2) with this much plaintext, and 22 other bytes.
    private static func record(_ plaintext: Int) -> [UInt8] {
        let length = plaintext + 17
        return [23, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)] + [UInt8](repeating: 0, count: length)
    }

    @Test(
        "a request that the app excludes when it is answered is excluded, and TLS has only its own bytes",
        arguments: [false, true]
    )
    func refusedLate(isRefused: Bool) {
        let account = TLSAccount(role: .server)
        let naming = NumberedExchanges()
        var exchanges = HTTP1Exchanges(
            role: .server,
            cookie: 7,
            routes: Routes(),
            placing: { account.place(received: $0, $1) },
            naming: naming
        )
        var records: [Report.Record] = []
        let request = Array("GET /users/1 HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
        let response = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        account.received(ciphertext: Self.record(request.count).span)
        account.received(plaintext: UInt64(request.count))
        exchanges.received(request.span, at: 1, &records)
        #expect(records.isEmpty)
        if isRefused { naming.excluded = "/users" }
        account.sent(plaintext: UInt64(response.count))
        exchanges.sent(response.span, at: 2, &records)
        account.sent(ciphertext: Self.record(response.count).span)
        exchanges.close(at: 3, &records)
        for record in records {
            if case .request = record { account.take(placed: record) } else { account.take(record) }
        }
        var connection = Report.Connection(cookie: 0)
        var messages: [Report.Message] = []
        account.report(of: exchanges, isLast: true) { record in
            switch record {
            case .request(let message), .response(let message): messages.append(message)
            case .outcome, .exchange: break
            case .connection(let last): connection = last
            }
        }
        #expect(
            messages.map(\.interval.bytes)
                == (isRefused ? [] : [request.count + 22, response.count + 22].map(UInt64.init))
        )
        #expect(connection.received.excluded == (isRefused ? UInt64(request.count) : 0))
        #expect(connection.sent.excluded == (isRefused ? UInt64(response.count) : 0))
        #expect([connection.received.tls, connection.sent.tls] == (isRefused ? [22, 22] : [0, 0]))
    }
}
