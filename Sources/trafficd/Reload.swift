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
    let logLevel: LogLevel
    /// Returns when the daemon does what the configuration says.
    let apply: @Sendable (Configuration) async -> Void

    func run() async throws {
        var configuration = self.configuration
        for await _ in self.start.cancelOnGracefulShutdown() {}
        for await _ in self.signals.cancelOnGracefulShutdown() {
            self.notification.reloading()
            await self.reload(&configuration)
            self.notification.ready()
        }
    }

    private func reload(_ configuration: inout Configuration) async {
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
        for line in lines { self.logger.log(level: line.level, "\(line.text)") }
        await self.apply(configuration)
        self.logger.notice("SIGHUP: the configuration was read again")
        // Last: a higher level would keep the change itself from the log.
        self.logLevel.current = configuration.logLevel
    }
}

/// A configuration for the counting thread, which takes it between two rounds.
final class NewConfiguration: Sendable {
    private struct State {
        var waiting: Configuration?
        /// Of the task that gave the configuration.
        var giver: CheckedContinuation<Void, Never>?
        var hasEnded = false
    }

    private let state = Mutex(State())
    private let demand: SweepDemand

    /// - Parameter demand: Wakes the counting thread.
    init(demand: SweepDemand) { self.demand = demand }

    /// Returns when the counting thread counts by this configuration, or when it counts no more. One task at a time may
    /// call this.
    func give(_ configuration: Configuration) async {
        await withCheckedContinuation { giver in
            let hasEnded = self.state.withLock { state in
                guard !state.hasEnded else { return true }
                (state.waiting, state.giver) = (configuration, giver)
                return false
            }
            if hasEnded { giver.resume() } else { self.demand.ask() }
        }
    }

    /// The counting thread calls ``taken()`` when it counts by this configuration.
    func take() -> Configuration? { self.state.withLock { $0.waiting.take() } }

    func taken() { self.state.withLock { $0.giver.take() }?.resume() }

    /// The counting thread counts no more.
    func end() {
        self.state.withLock { $0.hasEnded = true }
        self.taken()
    }
}
