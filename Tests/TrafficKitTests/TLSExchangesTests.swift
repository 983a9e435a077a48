import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@Suite("Exchanges of HTTP/1.x in TLS")
struct TLSExchangesTests {
    private final class Routes: RouteSource {
        func takeRoute(ofRequest number: Int) -> RouteAnswer { .template("/users/{user}") }
    }

    /// A record of application data (RFC 8446 section 5.2) with this much plaintext, and 22 other bytes.
    private static func record(_ plaintext: Int) -> [UInt8] {
        let length = plaintext + 17
        return [23, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)] + [UInt8](repeating: 0, count: length)
    }

    /// A record that passes on one side.
    private static func pass(_ count: Int, _ side: Side, _ exchanges: inout HTTP1Exchanges) {
        exchanges.stream(side).tls?.with {
            $0.passed(ciphertext: Self.record(count).span)
            $0.passed(plaintext: UInt64(count))
            $0.settle()
        }
    }

    @Test(
        "a request that the app excludes when it is answered is excluded, and TLS has only its own bytes",
        arguments: [false, true]
    )
    func refusedLate(isRefused: Bool) {
        let naming = NumberedExchanges()
        var exchanges = HTTP1Exchanges(
            role: .server,
            cookie: 7,
            sent: SocketStream(tls: TLSStream(by: .thisProcess)),
            received: SocketStream(tls: TLSStream(by: .peerClient)),
            routes: Routes(),
            naming: naming
        )
        var records = RecordBatch()
        let request = Array("GET /users/1 HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
        let response = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        Self.pass(request.count, .received, &exchanges)
        exchanges.received(request.span, at: 1, &records)
        #expect(records.isEmpty)
        if isRefused { naming.excluded = "/users" }
        Self.pass(response.count, .sent, &exchanges)
        exchanges.sent(response.span, at: 2, &records)
        exchanges.close(at: 3, &records)
        let connection = records.connections.last ?? Report.Connection(cookie: 0)
        #expect(
            records.messages.map(\.interval.bytes)
                == (isRefused ? [] : [request.count + 22, response.count + 22].map(UInt64.init))
        )
        #expect(connection.received.excluded == (isRefused ? UInt64(request.count) : 0))
        #expect(connection.sent.excluded == (isRefused ? UInt64(response.count) : 0))
        #expect([connection.received.tls, connection.sent.tls] == (isRefused ? [22, 22] : [0, 0]))
    }
}
