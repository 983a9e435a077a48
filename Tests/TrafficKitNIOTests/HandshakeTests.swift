import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOTLS
import Testing
import TrafficKit
import TrafficKitNIO
import TrafficKitTestSupport
import TrafficReport

/// The end of a connection's TLS handshake, which its handler announces in the pipeline.
@Suite("TLS handshakes")
struct HandshakeTests {
    private static let start: [UInt8] = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static func frame(
        _ stream: UInt8,
        _ fields: HPACKHeaders,
        _ encoder: inout HPACKEncoder
    ) throws -> [UInt8] {
        var block = ByteBuffer()
        try encoder.encode(headers: fields, to: &block)
        return [0, 0, UInt8(block.readableBytes), 1, 5, 0, 0, 0, stream] + block.readableBytesView
    }

    /// Two exchanges, one after the other.
    private static func exchanges(_ version: String?) throws -> [(request: [UInt8], response: [UInt8])] {
        guard version == "h2" else {
            let request = Array("GET /a HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
            let exchange = (request: request, response: Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8))
            return [exchange, exchange]
        }
        var (requests, responses) = (HPACKEncoder(allocator: .init()), HPACKEncoder(allocator: .init()))
        let head: HPACKHeaders = [":method": "GET", ":scheme": "https", ":path": "/a", ":authority": "h"]
        return try [1, 3].map { stream in
            (
                request: (stream == 1 ? Self.start : []) + (try Self.frame(stream, head, &requests)),
                response: try Self.frame(stream, [":status": "200"], &responses)
            )
        }
    }

    @Test(
        "only a client's first exchange has the end of the handshake, for every agreed protocol",
        arguments: [nil, "http/1.1", "h2"] as [String?],
        [TrafficHTTPHandler.Role.client, .server]
    )
    func negotiated(version: String?, role: TrafficHTTPHandler.Role) throws {
        let (monitor, records) = (TrafficMonitor(), Records())
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let channel = EmbeddedChannel(handler: TrafficHTTPHandler(role: role, monitor: monitor))
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 443)).wait()
        let before = TrafficClock.nanoseconds()
        channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: version))
        let after = TrafficClock.nanoseconds()
        for (request, response) in try Self.exchanges(version) {
            let (out, back) = role == .client ? (request, response) : (response, request)
            if role == .server { try channel.writeInbound(ByteBuffer(bytes: back)) }
            try channel.writeOutbound(IOData.byteBuffer(ByteBuffer(bytes: out)))
            if role == .client { try channel.writeInbound(ByteBuffer(bytes: back)) }
        }
        _ = try channel.finish(acceptAlreadyClosed: true)
        let outcomes = records.outcomes
        #expect(outcomes.map(\.ending) == [.ok, .ok])
        #expect(records.requests.allSatisfy { $0.version == (version == "h2" ? .http2 : .http1_1) })
        // This channel has no socket. The handlers have not seen the handshake, so its end is unknown.
        #expect(outcomes.map(\.isFirst) == [role == .client, false])
        let times = outcomes.map(\.tlsEndedAt)
        guard role == .client else { return #expect(times == [0, 0]) }
        #expect((before...after).contains(times[0]) && times[1] == 0)
        #expect(times[0] <= outcomes[0].startedAt)
    }
}
