public import Foundation
public import FoundationNetworking
import Synchronization
public import TrafficKit
import TrafficReport

/// A URLSession that reports the traffic of its tasks: `TrafficSession().data(for: request)`.
///
/// It passes every request on, once, to one URLSession. Results, errors, redirects, cookies and connections are those
/// of a URLSession with the same configuration. While the monitor has no listener, the session only notes which ports
/// are in use.
///
/// An exchange that has its remote port for itself is reported with the bytes of its socket. For plain HTTP these are
/// exact to the byte. For TLS they are `inferred`: the record has the body if its length is known, and all other bytes,
/// with the fields and a handshake, are in `tlsBytes`.
///
/// If exchanges with the same port overlap, or the socket was closed with the exchange, it is unknown which bytes
/// belong to which exchange. These exchanges are `inferred`, with the numbers that URLSession shows, and without a
/// socket.
///
/// To find the socket, the library looks at all descriptors of the process before and after an exchange, with a system
/// call for each. In a process with more than 1,024 descriptors it does not look, and all exchanges are `inferred`,
/// without a socket.
///
/// Downloads to files, streams, web sockets and completion handlers are left out, because the session shows too little
/// of them to report. The app can use a URLSession of its own for these, and observe it with
/// ``FoundationNetworking/URLSessionConfiguration/observeTraffic(monitor:)``. Delegates of single tasks are left out,
/// too, because the session's own delegate must get their events.
public final class TrafficSession: Sendable {
    private let session: URLSession
    /// The session's own configuration. `URLSession.configuration` would make a copy at every access.
    private let configuration: URLSessionConfiguration
    private let delegate: SessionDelegate
    private let monitor: TrafficMonitor

    /// - Parameters:
    ///   - configuration: The session copies it, as URLSession does.
    ///   - monitor: Gets the records.
    public init(configuration: URLSessionConfiguration = .default, monitor: TrafficMonitor = .shared) {
        self.delegate = SessionDelegate()
        self.session = URLSession(configuration: configuration, delegate: self.delegate, delegateQueue: nil)
        self.configuration = self.session.configuration
        self.monitor = monitor
    }

    /// - Throws: The errors of `URLSession.data(for:)`.
    public func data(for request: URLRequest) async throws -> (Data, URLResponse) {
        let body = request.httpBodyStream == nil ? UInt64(request.httpBody?.count ?? 0) : nil
        return try await self.run(self.session.dataTask(with: request), request, body: body)
    }

    /// - Throws: The errors of `URLSession.data(from:)`.
    public func data(from url: URL) async throws -> (Data, URLResponse) {
        try await self.data(for: URLRequest(url: url))
    }

    /// - Throws: The errors of `URLSession.upload(for:from:)`.
    public func upload(for request: URLRequest, from body: Data) async throws -> (Data, URLResponse) {
        try await self.run(self.session.uploadTask(with: request, from: body), request, body: UInt64(body.count))
    }

    /// Takes no further requests, and closes the connections when the running tasks have ended.
    public func finishTasksAndInvalidate() {
        self.session.finishTasksAndInvalidate()
    }

    /// Takes no further requests, and cancels the running tasks.
    public func invalidateAndCancel() {
        self.session.invalidateAndCancel()
    }

    private func run(_ task: URLSessionTask, _ request: URLRequest, body: UInt64?) async throws -> (Data, URLResponse) {
        let port = request.url?.remotePort
        let isReported = self.monitor.hasListener && port != nil
        // Exchanges that are not reported use the port, too: a reported exchange that overlaps is not alone there.
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

/// Cancels a task only after the task was resumed: URLSession cannot handle the opposite order.
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
