import AsyncHTTPClient
import NIOCore
import NIOPosix
import NIOSSL
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A body without a length ends with the connection. A closure alert of TLS says that this was the end (RFC 9112
/// section 9.8).
@Suite("AsyncHTTPClient and TLS closure alerts", .timeLimit(.minutes(60)))
struct ClosureTests {
    private static let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"

    /// - Parameter isClean: The server sends a closure alert.
    private static func server(isClean: Bool) async throws -> any Channel {
        let certificates = try await Certificates.local
        let configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
        )
        let context = try NIOSSLContext(configuration: configuration)
        return try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let head = Head()
                    try channel.pipeline.syncOperations.addHandler(head)
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                    try channel.pipeline.syncOperations.addHandler(Answer(closing: isClean ? nil : head))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    @Test("a body without a length is complete only with a closure alert", arguments: [true, false])
    func lengthless(isClean: Bool) async throws {
        let server = try await Self.server(isClean: isClean)
        let url = "https://localhost:\(try #require(server.localAddress?.port))/files/1"
        // What OpenSSL reports of the same body.
        #expect(try await Self.read(url) == (isClean ? "hello end" : "hello no end"))

        let (monitor, records) = (TrafficMonitor(), Records())
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let client = HTTPClient(configuration: try await ClientTests.configuration(.tls13, monitor))
        let response = try? await client.execute(HTTPClientRequest(url: url), timeout: .minutes(10))
        _ = try? await response?.body.collect(upTo: 1_000)
        try await client.shutdown()
        try await server.close()
        let message = try #require(records.responses.first)
        #expect(records.responses.count == 1 && message.bodyBytes == 5)
        #expect(message.messageBytes == UInt64(Self.answer.utf8.count))
        #expect(message.isIncomplete == !isClean)
        #expect(records.outcomes.map(\.ending) == [isClean ? .ok : .truncated])
    }

    /// - Returns: The body, and whether the stream had an end.
    private static func read(_ url: String) async throws -> String {
        let script = """
            import socket, ssl, sys, urllib.parse
            url = urllib.parse.urlsplit(sys.argv[1])
            context = ssl.create_default_context(cafile=sys.argv[2])
            plain = socket.create_connection((url.hostname, url.port))
            with context.wrap_socket(plain, server_hostname=url.hostname, suppress_ragged_eofs=False) as stream:
                stream.sendall(f"GET {url.path} HTTP/1.1\\r\\nHost: {url.netloc}\\r\\n\\r\\n".encode())
                answer, end = b"", "end"
                try:
                    while piece := stream.recv(1000):
                        answer += piece
                except ssl.SSLEOFError:
                    end = "no end"
            print(answer.split(b"\\r\\n\\r\\n")[1].decode(), end, end="")
            """
        return try await Tool.run("python3", ["-c", script, url, Certificates.local.authority]).output
    }

    /// The handler nearest to the socket. If it closes the connection, TLS does not know and sends no alert.
    private final class Head: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer
        private var context: ChannelHandlerContext?

        func handlerAdded(context: ChannelHandlerContext) { self.context = context }
        func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }
        func close() { self.context?.close(promise: nil) }
    }

    private final class Answer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        /// The handler that closes the connection. `nil`: TLS closes the connection in its own way.
        private let head: Head?

        init(closing head: Head?) {
            self.head = head
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            context.writeAndFlush(NIOAny(ByteBuffer(string: ClosureTests.answer)), promise: nil)
            if let head { head.close() } else { context.close(promise: nil) }
        }
    }
}
