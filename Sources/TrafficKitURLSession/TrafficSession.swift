public import Foundation
public import FoundationNetworking
import Synchronization
public import TrafficKit
import TrafficReport

/// A URLSession that reports what its tasks move: `TrafficSession().data(for: request)`.
///
/// It hands every request on, once, to one URLSession, and hands back what comes: results, errors, redirects, cookies, connections are those
/// that a URLSession of the same configuration would have. While the monitor has no listener it does nothing else, but for noting which ports
/// are in use.
///
/// Exchanges that have their destination for themselves are reported with the bytes of their socket: of plain HTTP to the byte. Of TLS
/// they are `inferred`: the body is told where its length is known, and the rest, the fields and a handshake too, is in `tlsBytes`. Where
/// exchanges with one port overlap, or the socket was closed with the exchange, nobody knows which bytes were whose: these are `inferred`,
/// with what URLSession shows, and without a socket. To find the socket, all descriptors of the process are looked at before and after an
/// exchange: a system call for each. In a process with more than 1,024 descriptors they are not, and all is `inferred`, without a socket.
///
/// Downloads to files, streams, web sockets and completion handlers are left out: of those the session shows less than what can be
/// reported, and what is not wrapped is no different from a URLSession of the app's own. Those can be observed by
/// ``FoundationNetworking/URLSessionConfiguration/observeTraffic(monitor:)``. Delegates of single tasks are left out, too: this one has to be told.
public final class TrafficSession: Sendable {
    private let session: URLSession
    /// The session's own, which would copy it whenever asked.
    private let configuration: URLSessionConfiguration
    private let delegate: SessionDelegate
    private let monitor: TrafficMonitor

    /// - Parameters:
    ///   - configuration: Is copied, as URLSession does.
    ///   - monitor: What is told.
    public init(configuration: URLSessionConfiguration = .default, monitor: TrafficMonitor = .shared) {
        self.delegate = SessionDelegate()
        self.session = URLSession(configuration: configuration, delegate: self.delegate, delegateQueue: nil)
        self.configuration = self.session.configuration
        self.monitor = monitor
    }

    /// - Throws: What `URLSession.data(for:)` throws.
    public func data(for request: URLRequest) async throws -> (Data, URLResponse) {
        let body = request.httpBodyStream == nil ? UInt64(request.httpBody?.count ?? 0) : nil
        return try await self.run(self.session.dataTask(with: request), request, body: body)
    }

    /// - Throws: What `URLSession.data(from:)` throws.
    public func data(from url: URL) async throws -> (Data, URLResponse) {
        try await self.data(for: URLRequest(url: url))
    }

    /// - Throws: What `URLSession.upload(for:from:)` throws.
    public func upload(for request: URLRequest, from body: Data) async throws -> (Data, URLResponse) {
        try await self.run(self.session.uploadTask(with: request, from: body), request, body: UInt64(body.count))
    }

    /// Takes no further requests, and closes its connections when those at work are over.
    public func finishTasksAndInvalidate() {
        self.session.finishTasksAndInvalidate()
    }

    /// Takes no further requests, and cancels those at work.
    public func invalidateAndCancel() {
        self.session.invalidateAndCancel()
    }

    private func run(_ task: URLSessionTask, _ request: URLRequest, body: UInt64?) async throws -> (Data, URLResponse) {
        let port = request.url?.remotePort
        let isReported = self.monitor.hasListener && port != nil
        // Others that begin meanwhile, and are reported, have not their destination for themselves.
        let ticket = isReported ? nil : port.map { port in SerialPorts.process.withLock { $0.begin(port: port) } }
        defer {
            if let ticket, let port { _ = SerialPorts.process.withLock { $0.end(ticket, port: port) } }
        }
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let traffic =
                    !isReported
                    ? nil
                    : TaskTraffic(
                        request.withCookies(of: self.configuration),
                        body: body,
                        monitor: self.monitor
                    )
                self.delegate.begin(task, traffic, continuation)
                task.resume()
                cancellation.activate(task)
            }
        } onCancel: {
            cancellation.cancel()
        }
    }
}

/// A task is cancelled after it was resumed: URLSession can't cope with the opposite.
private final class Cancellation: Sendable {
    private let state = Mutex<(isCancelled: Bool, task: URLSessionTask?)>((false, nil))

    func activate(_ task: URLSessionTask) {
        let isCancelled = self.state.withLock { state in
            state.task = task
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    func cancel() {
        let task = self.state.withLock { state in
            state.isCancelled = true
            return state.task
        }
        task?.cancel()
    }
}
