import ArgumentParser
import NIOCore
import TrafficDocuments
import TrafficExport
import TrafficModel
import TrafficView

struct Alerts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Which alerts are in force, and how they change.",
        discussion: """
            The rules are in the daemon's configuration file, in the section alerts. An alert that begins or ends is also \
            in the daemon's log. Only root and the group trafficd may ask, because alerts are about all users.

            --follow prints each change from now on: an alert began, reached its next step, or ended. When trafficd was \
            away, it goes on after the last change. With --webhook, each change is a POST with a body in JSON instead, \
            one after the other, and with --state the next process goes on after the last one that the server has. \
            The unit trafficd-webhook does this; the variables TRAFFICD_WEBHOOK_URL and TRAFFICD_WEBHOOK_TOKEN_FILE \
            say what --webhook and --token-file do, so that nobody reads a secret in a list of processes.

            EXIT CODES
              0   with --check: no alert is in force, or only steps of budgets that are not used up
              1   with --check: an alert is in force
              2   with --check: trafficd's answer could not be read
              69  trafficd is not running
              77  no permission

            EXAMPLES
              trafficctl alerts
              trafficctl alerts --format json | jq '.alerts[].rule'
              trafficctl alerts --follow
              trafficctl alerts --follow --webhook https://host.example/alerts --state /var/tmp/alerts
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

    @Flag(help: "Exit with 1 if an alert is in force. A budget that is not used up is none.")
    var check = false

    @Flag(
        help:
            "Print each change as it happens, until stopped. --format table: a line of text; json, ndjson: a line of JSON."
    )
    var follow = false

    @Option(
        help: ArgumentHelp("With --follow: post each change there; also TRAFFICD_WEBHOOK_URL.", valueName: "url")
    )
    var webhook: String?

    @Option(
        help: ArgumentHelp(
            "The server wants this file's line as Authorization: Bearer; also TRAFFICD_WEBHOOK_TOKEN_FILE.",
            valueName: "file"
        ),
        completion: .file()
    )
    var tokenFile: String?

    @Option(
        help: ArgumentHelp("Keep here which change the server has, and go on after it.", valueName: "file"),
        completion: .file()
    )
    var state: String?

    func validate() throws {
        if self.follow, self.check { throw ValidationError("--follow and --check can't be combined.") }
        if self.follow, self.format == .csv || self.format == .tsv {
            throw ValidationError("--follow takes --format table, json or ndjson.")
        }
        for (name, value) in [("--webhook", self.webhook), ("--token-file", self.tokenFile), ("--state", self.state)]
        where value != nil && !self.follow {
            throw ValidationError("\(name) needs --follow.")
        }
    }

    func run() async throws {
        if self.follow { return try await self.followChanges() }
        do {
            let report = try await self.connection.client.get("/v1/alerts").decoded(as: AlertReport.self)
            try self.write(report)
            if self.check, report.alerts.contains(where: \.isBroken) { throw ExitCode.failure }
        } catch let failure as Failure where self.check && failure.exitCode == 1 {
            // 1 says that an alert is in force.
            throw Trouble(failure: failure)
        }
    }

    private func followChanges() async throws {
        guard let text = self.webhook ?? environment("TRAFFICD_WEBHOOK_URL") else {
            guard self.tokenFile == nil, self.state == nil else {
                throw Failure.badWebhook("is missing, and --token-file and --state need it")
            }
            var follower = AlertFollower(client: try self.connection.client)
            return try await follower.run { notice, line in
                guard let alert = notice.alert else { return }
                if self.format != .table { return try StandardStream.output.write(line) }
                if notice.droppedBefore > 0 {
                    try StandardStream.output.write("\(notice.droppedBefore) changes are missing: too many at once\n")
                }
                let words = "\(notice.at) \(notice.change.words) \(alert.text(inBits: self.unit.units == .bits))"
                try StandardStream.output.write(Typeface.ascii.printable(words) + "\n")
            }
        }
        let url = try WebhookURL(text)
        let token = try (self.tokenFile ?? environment("TRAFFICD_WEBHOOK_TOKEN_FILE")).map(TokenFile.load)
        let file = self.state.map(PositionFile.init)
        let (client, position) = (try self.connection.client, try file?.load())
        let webhook = try Webhook(url, token: token)
        let delivery = WebhookDelivery(webhook, file: file)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask {
                var follower = AlertFollower(client: client, position: position)
                try await follower.run { notice, _ in delivery.add(notice) }
            }
            tasks.addTask { try await delivery.run() }
            defer { tasks.cancelAll() }
            // Both go on until one fails.
            try await tasks.next()
        }
    }

    private func write(_ report: AlertReport) throws {
        if let format = self.format.export {
            return try StandardStream.output.write(ByteBuffer(bytes: report.encoded(as: format)))
        }
        let table = Table.alerts(report, units: self.unit.units) { LocalTime.withMinutes($0) }
        try table.write(
            units: self.unit.units,
            color: self.color,
            ifEmpty: report.rules == 0
                ? "trafficd has no rules: see alerts in its configuration file." : "No alert is in force."
        )
    }
}

extension AlertNotice.Change {
    fileprivate var words: String {
        switch self {
        case .following: "following"
        case .began: "began:"
        case .nextStep: "next step:"
        case .ended: "ended:"
        }
    }
}

extension Alert {
    /// Whether a limit is exceeded. The steps of a budget before that are news, and stay for the rest of the day or month.
    fileprivate var isBroken: Bool { self.stepRatio.map { $0 >= 1 } ?? true }
}
