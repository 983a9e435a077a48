import Dispatch
import Foundation
import Synchronization

/// Cleans up where a signal ends the program, and exits with that signal's code.
final class SignalGuard {
    /// Whether the program is ending. What fails from then on fails because of the end, and is no finding.
    static let isEnding = Atomic(false)

    private let sources: [any DispatchSourceSignal]

    init(_ cleanUp: @escaping @Sendable () -> Void) {
        self.sources = [SIGHUP, SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                Self.isEnding.store(true, ordering: .relaxed)
                cleanUp()
                _exit(128 + number)
            }
            source.activate()
            return source
        }
    }

    func stop() {
        for source in self.sources { source.cancel() }
    }
}
