import Logging
import Synchronization

/// The level of all of the daemon's loggers, which can change while they are in use.
final class LogLevel: Sendable {
    private let level: Mutex<Logger.Level>

    init(_ level: Logger.Level) { self.level = Mutex(level) }

    var current: Logger.Level {
        get { self.level.withLock { $0 } }
        set { self.level.withLock { $0 = newValue } }
    }
}

/// Writes to standard error what the level lets through.
struct LeveledLogHandler: LogHandler {
    private var stream: StreamLogHandler
    private let level: LogLevel

    init(label: String, level: LogLevel) {
        (self.stream, self.level) = (StreamLogHandler.standardError(label: label), level)
    }

    /// One for all. No part of the daemon sets another for itself.
    var logLevel: Logger.Level {
        get { self.level.current }
        set { self.level.current = newValue }
    }

    var metadata: Logger.Metadata {
        get { self.stream.metadata }
        set { self.stream.metadata = newValue }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { self.stream.metadataProvider }
        set { self.stream.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.stream[metadataKey: key] }
        set { self.stream[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) { self.stream.log(event: event) }
}
