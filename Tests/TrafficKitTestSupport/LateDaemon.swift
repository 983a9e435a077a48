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

    /// So much time passes without a daemon that the monitor has no listener.
    ///
    /// - Returns: Whether that is so.
    public func giveUp() -> Bool {
        self.clock.advance(by: 11_000_000_000)
        return !self.monitor.hasListener
    }

    /// From now on what is reported arrives. The monitor does not know, until it looks again.
    public func come() throws -> ReportReceiver { try ReportReceiver(path: self.path) }

    /// So much time passes that the monitor looks for the daemon.
    ///
    /// - Returns: Whether it has found it.
    public func lookAgain() -> Bool {
        self.clock.advance(by: 1_000_000_000)
        return self.monitor.hasListener
    }
}
