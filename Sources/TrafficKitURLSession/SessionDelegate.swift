import Foundation
import FoundationNetworking
import Synchronization

/// Gathers the data that a session's tasks deliver, and sees their redirects.
final class SessionDelegate: NSObject, URLSessionDataDelegate {
    private struct Running {
        var traffic: TaskTraffic?
        let continuation: CheckedContinuation<(Data, URLResponse), any Error>
        var data = Data()
    }

    /// By the identifier of the task.
    private let tasks = Mutex<[Int: Running]>([:])

    /// Registers a task. To be called before the task is resumed.
    func begin(
        _ task: URLSessionTask,
        _ traffic: TaskTraffic?,
        _ continuation: CheckedContinuation<(Data, URLResponse), any Error>
    ) {
        self.tasks.withLock { $0[task.taskIdentifier] = Running(traffic: traffic, continuation: continuation) }
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        self.tasks.withLock { $0[dataTask.taskIdentifier]?.traffic?.responseBegan() }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        self.tasks.withLock { $0[dataTask.taskIdentifier]?.data.append(data) }
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        // A session without a delegate does the same.
        let request = request.withCookies(of: session.configuration)
        // Not under the lock: an observer may begin tasks of its own.
        if var traffic = self.tasks.withLock({ $0[task.taskIdentifier]?.traffic }) {
            traffic.redirected(response, to: request)
            self.tasks.withLock { $0[task.taskIdentifier]?.traffic = traffic }
        }
        completionHandler(request)
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        self.tasks.withLock { $0[task.taskIdentifier]?.traffic?.willRepeat() }
        completionHandler(.performDefaultHandling, nil)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard var running = self.tasks.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        let response = task.response
        running.traffic?.ended(response as? HTTPURLResponse, delivered: UInt64(running.data.count), error)
        if let error {
            running.continuation.resume(throwing: error)
        } else if let response {
            running.continuation.resume(returning: (running.data, response))
        } else {
            running.continuation.resume(throwing: URLError(.badServerResponse))
        }
    }
}
