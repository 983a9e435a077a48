import Logging
import Synchronization

/// Keeps what is logged.
struct Lines: LogHandler {
    let all: Kept
    var logLevel = Logger.Level.trace
    var metadata: Logger.Metadata = [:]
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) { self.all.lines.withLock { $0.append("\(event.message)") } }
}

final class Kept: Sendable {
    let lines = Mutex<[String]>([])
}
