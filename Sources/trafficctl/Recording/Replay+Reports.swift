import NIOCore
import TrafficAlerts
import TrafficConfiguration
import TrafficDocuments
import TrafficExport
import TrafficModel
import TrafficRecording
import TrafficView

extension ReplayCommand {
    func printHistory(_ recording: Recording) throws {
        let history = try RecordedHistory(recording)
        let report = try history.report(try self.question())
        if let format = self.format?.export {
            return try StandardStream.output.write(ByteBuffer(bytes: report.encoded(as: format)))
        }
        try StandardStream.output.write(History.heading(of: report, self.look.unit.units))
        try Table.history(report)
            .write(
                units: self.look.unit.units,
                color: self.look.color,
                ifEmpty: self.filter == nil ? "No bytes moved while this was recorded." : "Nothing passes the filter."
            )
    }

    func printAlerts(_ recording: Recording) throws {
        let rules = try self.rules()
        let judged = try RecordedAlerts(rules, over: recording)
        for rule in judged.unjudged {
            say("rule \(rule.name) is about more time than a recording has, and is not judged")
        }
        guard self.format ?? .table == .table else {
            for notice in judged.notices {
                try StandardStream.output.write(ByteBuffer(bytes: notice.json() + [UInt8(ascii: "\n")]))
            }
            return
        }
        let table = Table.alertEvents(
            judged.events.map { event in
                switch event.change {
                case .began(let alert): (event.time, "begins", alert)
                case .rose(let alert): (event.time, "next step", alert)
                case .ended(let alert): (event.time, "ends", alert)
                }
            },
            host: recording.header.host?.name ?? "",
            units: self.look.unit.units,
            time: LocalTime.withSeconds
        )
        let length =
            "\(recording.count) snapshots of \(LocalTime.withSeconds(recording.time(of: 0)))"
            + " to \(LocalTime.withSeconds(recording.time(of: recording.count - 1)))"
        try table.write(
            units: self.look.unit.units,
            color: self.look.color,
            ifEmpty: rules.isEmpty
                ? "\(self.config ?? "") has no rules." : "No rule was broken in \(length)."
        )
    }

    private func rules() throws(Failure) -> [AlertRule] {
        let file = ConfigurationFile(path: self.config ?? "")
        do throws(ConfigurationFault) {
            return try file.read().configuration.alerts
        } catch {
            throw .configuration(error.lines)
        }
    }
}
