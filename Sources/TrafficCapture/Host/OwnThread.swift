import CLinux
import Glibc

/// A thread for work that blocks. Foundation's `Thread` would do the same, but would link all of Foundation.
package struct OwnThread: Sendable {
    private let thread: pthread_t

    /// - Parameter name: The name that `ps -T` shows, 15 bytes of it.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel makes no further thread.
    package init(_ name: String, _ body: @escaping @Sendable () -> Void) throws(CaptureError) {
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        let error = pthread_create(
            &thread,
            nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                linux_name_thread(start.name)
                start.body()
                return nil
            },
            start.toOpaque()
        )
        guard error == 0 else {
            start.release()
            throw .system(call: "pthread_create", object: name, errno: error)
        }
        self.thread = thread
    }

    /// Waits for the end of the thread. May be called once, and not after ``detach()``.
    package func join() { pthread_join(self.thread, nil) }

    /// Lets the thread end without a ``join()``.
    package func detach() { pthread_detach(self.thread) }
}

private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        (self.name, self.body) = (name, body)
    }
}
