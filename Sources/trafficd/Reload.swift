import Logging
import ServiceLifecycle
import Synchronization
import TrafficCapture
import TrafficConfiguration
import UnixSignals

/// At each SIGHUP, reads the configuration again and hands on what can change while the daemon counts.
struct Reload: Service {
    let signals: UnixSignalsSequence
    /// Ends when the daemon is ready: no earlier may systemd hear that it is.
    let start: AsyncStream<Never>
    let source: ConfigurationSource
    /// What the daemon does at its start.
    let configuration: Configuration
    let notification: SystemdNotification
    let logger: Logger
    let apply: @Sendable (Configuration) -> Void

    func run() async throws {
        var configuration = self.configuration
        for await _ in self.start.cancelOnGracefulShutdown() {}
        for await _ in self.signals.cancelOnGracefulShutdown() {
            self.notification.reloading()
            self.reload(&configuration)
            self.notification.ready()
        }
    }

    private func reload(_ configuration: inout Configuration) {
        guard self.source.hasFile else {
            let name = self.source.file.map { " \($0.path)" } ?? ""
            self.logger.notice("SIGHUP: there is no configuration file\(name), and nothing changes")
            return
        }
        let loaded: ConfigurationSource.Loaded
        do throws(ConfigurationFault) {
            loaded = try self.source.load()
        } catch {
            for line in error.lines { self.logger.error("\(line)") }
            self.logger.error("SIGHUP: the configuration file is wrong, and nothing changes")
            return
        }
        let before = configuration
        var lines: [(level: Logger.Level, text: String)] = loaded.notes.map { (.notice, $0) }
        for setting in Configuration.settings.all {
            guard setting.show(before) != setting.show(loaded.configuration) else { continue }
            let change = "\(setting.name): \(setting.summary(before)) → \(setting.summary(loaded.configuration))"
            switch setting.change {
            case .atReload:
                setting.copy(loaded.configuration, &configuration)
                lines.append((.notice, change))
            case .atRestart:
                lines.append((.warning, "\(change) needs a restart"))
            }
        }
        // With the level of before: a higher one would keep the change itself from the log.
        for line in lines { self.logger.log(level: line.level, "\(line.text)") }
        self.logger.notice("SIGHUP: the configuration was read again")
        self.apply(configuration)
    }
}

/// A configuration for the counting thread, which takes it between two rounds.
final class NewConfiguration: Sendable {
    private let waiting = Mutex<Configuration?>(nil)
    private let demand: SweepDemand

    /// - Parameter demand: Wakes the counting thread.
    init(demand: SweepDemand) { self.demand = demand }

    func give(_ configuration: Configuration) {
        self.waiting.withLock { $0 = configuration }
        self.demand.ask()
    }

    func take() -> Configuration? { self.waiting.withLock { $0.take() } }
}
