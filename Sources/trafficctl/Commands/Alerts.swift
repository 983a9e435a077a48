import ArgumentParser
import NIOCore
import TrafficExport
import TrafficModel
import TrafficView

struct Alerts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Which alerts are in force.",
        discussion: """
            The rules are in the daemon's configuration file, in the section alerts. An alert that begins or ends is also \
            in the daemon's log. Only root and the group trafficd may ask, because alerts are about all users.

            EXIT CODES OF --check
              0   no alert is in force
              1   an alert is in force
              2   trafficd's answer could not be read
              69  trafficd is not running
              77  no permission

            EXAMPLES
              trafficctl alerts
              trafficctl alerts --format json | jq '.alerts[].rule'
              trafficctl alerts --check >/dev/null || echo 'see trafficctl alerts' | mail -s traffic root
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(
        help: "table: for people. tsv, csv, ndjson: the alerts, by the JSON names of their fields. json: everything."
    )
    var format = RowOptions.Format.table

    @Flag(help: "Exit with 1 if an alert is in force.")
    var check = false

    func run() async throws {
        do {
            let report = try await self.connection.client.get("/v1/alerts").decoded(as: AlertReport.self)
            try self.write(report)
            if self.check, !report.alerts.isEmpty { throw ExitCode.failure }
        } catch let failure as Failure where self.check && failure.exitCode == 1 {
            // 1 says that an alert is in force.
            throw Trouble(failure: failure)
        }
    }

    private func write(_ report: AlertReport) throws {
        if let format = self.format.export {
            return try StandardStream.output.write(ByteBuffer(bytes: report.encoded(as: format)))
        }
        let table = Table.alerts(
            report,
            units: self.unit.units,
            time: { LocalTime.text($0, .minute) },
            user: LocalTime.user
        )
        try table.write(
            units: self.unit.units,
            color: self.color,
            ifEmpty: report.rules == 0
                ? "trafficd has no rules: see alerts in its configuration file." : "No alert is in force."
        )
    }
}
