public import TrafficKit

/// A monitor without observers, and a daemon that is late.
public struct LateDaemon: Sendable {
    public let monitor = TrafficMonitor()
    private let path = ReportReceiver.freshPath()
    private let clock = TestClock()

    public init() throws {
        let clock = self.clock
        var configuration = TrafficMonitor.Configuration(socketPath: self.path)
        configuration.clock = { clock.now }
        try self.monitor.start(configuration)
    }

    /// Lets so much time pass without a daemon that the monitor has no listener.
    ///
    /// - Returns: Whether the monitor has no listener.
    public func giveUp() -> Bool {
        self.clock.advance(by: 11_000_000_000)
        return !self.monitor.hasListener
    }

    /// Starts the daemon, so that reports arrive from now on. The monitor does not know that until it looks again.
    public func come() throws -> ReadingDaemon { try ReadingDaemon(path: self.path) }

    /// Lets so much time pass that the monitor looks for the daemon.
    ///
    /// - Returns: Whether the monitor has found the daemon.
    public func lookAgain() -> Bool {
        self.clock.advance(by: 1_000_000_000)
        return self.monitor.hasListener
    }
}
