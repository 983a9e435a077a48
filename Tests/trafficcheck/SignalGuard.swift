import Dispatch
import Foundation

/// Cleans up where a signal ends the program, and ends it by that signal's code.
final class SignalGuard {
    private let sources: [any DispatchSourceSignal]

    init(_ cleanUp: @escaping @Sendable () -> Void) {
        self.sources = [SIGHUP, SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
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
