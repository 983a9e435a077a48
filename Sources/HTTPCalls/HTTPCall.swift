import Glibc
package import NIOCore
package import NIOHTTP1
import NIOPosix
import Synchronization

/// A request over HTTP/1.1 with a connection of its own. It follows no redirection, and tries nothing again.
package struct HTTPCall: Sendable {
    package var place: HTTPServerPlace
    package var method: HTTPMethod
    /// Path and query.
    package var target: String
    package var headers: HTTPHeaders
    package var body: [UInt8]
    package var connectTimeout: Duration

    /// - Parameter headers: With `Host`. `Connection` and `Content-Length` are added.
    package init(
        _ method: HTTPMethod,
        _ target: String,
        at place: HTTPServerPlace,
        headers: HTTPHeaders,
        body: [UInt8] = [],
        connectTimeout: Duration = .seconds(5)
    ) {
        (self.method, self.target, self.place) = (method, target, place)
        (self.headers, self.body, self.connectTimeout) = (headers, body, connectTimeout)
    }

    /// - Parameter read: Gets the head of the answer, and what follows as it comes.
    /// - Throws: ``HTTPCallError``, and errors of `read`.
    package func answer<Result: Sendable>(
        _ read: (HTTPResponseHead, HTTPBody) async throws -> Result
    ) async throws -> Result {
        let connection: Connection
        do { connection = try await Connecting.run { try await self.connect() } } catch { throw HTTPCallError(error) }
        var thrown: (any Error)?
        do {
            return try await connection.executeThenClose { inbound, outbound in
                // All at once: after the head alone, a server may answer and close before the rest is written. Where it
                // can't be written, the answer says why: it is there already, or it has the error of the connection.
                try? await outbound.write(contentsOf: self.parts())
                var body = HTTPBody(parts: inbound.makeAsyncIterator())
                let head = try await body.head()
                do { return try await read(head, body) } catch {
                    thrown = error
                    throw error
                }
            }
        } catch {
            throw thrown ?? HTTPCallError(error)
        }
    }

    /// - Parameters:
    ///   - limit: The body is cut after the part with this byte.
    ///   - time: For all of it, whatever the server does.
    /// - Throws: ``HTTPCallError``.
    package func answer(
        atMost limit: Int,
        within time: Duration
    ) async throws(HTTPCallError) -> (head: HTTPResponseHead, body: ByteBuffer) {
        let first = await withTaskGroup(of: Result<(HTTPResponseHead, ByteBuffer), HTTPCallError>?.self) { tasks in
            tasks.addTask {
                do {
                    return .success(try await self.answer { ($0, try await $1.whole(atMost: limit)) })
                } catch {
                    return .failure(HTTPCallError(error))
                }
            }
            tasks.addTask {
                try? await Task.sleep(for: time)
                return nil
            }
            let first = await tasks.next() ?? nil
            tasks.cancelAll()
            return first
        }
        guard let first else { throw .noAnswerInTime(time) }
        return try first.get()
    }

    private func parts() -> [HTTPClientRequestPart] {
        var headers = self.headers
        headers.replaceOrAdd(name: "connection", value: "close")
        if self.method != .GET { headers.replaceOrAdd(name: "content-length", value: "\(self.body.count)") }
        let head = HTTPRequestHead(version: .http1_1, method: self.method, uri: self.target, headers: headers)
        let body: [HTTPClientRequestPart] =
            self.body.isEmpty ? [] : [.body(.byteBuffer(ByteBuffer(bytes: self.body)))]
        return [.head(head)] + body + [.end(nil)]
    }

    fileprivate typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    private func connect() async throws -> Connection {
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connectTimeout(TimeAmount(self.connectTimeout))
        let place = self.place
        let prepare = { @Sendable (channel: any Channel) in
            channel.eventLoop.makeCompletedFuture {
                #if TLS
                if case .network(let host, _, let tls?) = place { try tls.addHandler(to: channel, host: host) }
                #endif
                try channel.pipeline.syncOperations.addHTTPClientHandlers()
                return try Connection(wrappingChannelSynchronously: channel)
            }
        }
        return switch place {
        case .socket(let path): try await bootstrap.connect(unixDomainSocketPath: path, channelInitializer: prepare)
        case .network(let host, let port, _):
            // A host that is gone says nothing, so the kernel asks for it: it is gone after 15 + 3 * 5 seconds.
            try await bootstrap.channelOption(.socketOption(.so_keepalive), value: 1)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPIDLE)), value: 15)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: 5)
                .channelOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: 3)
                .connect(host: host, port: port, channelInitializer: prepare)
        }
    }
}

/// A wait for a connection that ends at once when the task is cancelled. NIO's own goes on until its timeout.
private final class Connecting: Sendable {
    private enum State {
        case new
        case waiting(CheckedContinuation<HTTPCall.Connection, any Error>)
        /// Nobody waits any more, or nobody will.
        case over
    }

    private let state = Mutex(State.new)

    static func run(
        _ connect: @Sendable @escaping () async throws -> HTTPCall.Connection
    ) async throws
        -> HTTPCall.Connection
    {
        let own = Connecting()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = own.state.withLock { state in
                    if case .over = state { return true }
                    state = .waiting(continuation)
                    return false
                }
                guard !isCancelled else { return continuation.resume(throwing: CancellationError()) }
                Task {
                    do {
                        let connection = try await connect()
                        guard !own.end(.success(connection)) else { return }
                        try? await connection.executeThenClose { _, _ in }
                    } catch {
                        own.end(.failure(error))
                    }
                }
            }
        } onCancel: {
            own.end(.failure(CancellationError()))
        }
    }

    /// - Returns: Whether somebody waited.
    @discardableResult
    private func end(_ result: Result<HTTPCall.Connection, any Error>) -> Bool {
        let waiting = self.state.withLock { state -> CheckedContinuation<HTTPCall.Connection, any Error>? in
            defer { state = .over }
            return if case .waiting(let continuation) = state { continuation } else { nil }
        }
        waiting?.resume(with: result)
        return waiting != nil
    }
}

/// What follows the head of an answer, as it comes.
package struct HTTPBody {
    fileprivate var parts: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator

    /// 1xx answers come before the final one.
    fileprivate mutating func head() async throws -> HTTPResponseHead {
        while let part = try await self.parts.next() {
            if case .head(let head) = part, head.status.code >= 200 { return head }
        }
        throw try Self.ended()
    }

    /// The next bytes; `nil` at the answer's end.
    ///
    /// - Throws: ``HTTPCallError``.
    package mutating func next() async throws(HTTPCallError) -> ByteBuffer? {
        do {
            while let part = try await self.parts.next() {
                switch part {
                case .head: continue
                case .body(let bytes): return bytes
                case .end: return nil
                }
            }
            throw try Self.ended()
        } catch {
            throw HTTPCallError(error)
        }
    }

    /// - Parameter limit: The body is cut after the part with this byte.
    /// - Throws: ``HTTPCallError``.
    package func whole(atMost limit: Int = .max) async throws(HTTPCallError) -> ByteBuffer {
        var (rest, whole) = (self, ByteBuffer())
        while whole.readableBytes < limit, var part = try await rest.next() { whole.writeBuffer(&part) }
        return whole
    }

    /// The parts also stop without an end where the task is cancelled.
    private static func ended() throws -> HTTPCallError {
        try Task.checkCancellation()
        return .closed
    }
}
