public import ArgumentParser
import CommandOptions
import Glibc
import NIOCore
public import TrafficDocuments
import TrafficExport
import TrafficModel
import TrafficQuery
import TrafficView

struct History: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Who moved how much, in the past hours, days and months.",
        discussion: """
            Needs a daemon that keeps history (trafficd run --state-directory DIR; the packaged service does). Sums are \
            kept by minute for 2 days, by hour for 14 days, by day for 62 days and by month for 25 months, and those \
            of 5 minutes, which are not divided by process, for 62 days, unless trafficd was told otherwise. Without --bucket the shortest of these that reach back to --since are added \
            up, so the time may begin earlier, by up to one of these; the line above the table says when. Times in the table are those of the host that counts; the other formats have them in UTC too.

            A minute is kept when it is over: the bytes of the present minute are in trafficctl top.

            By host or route, or with a filter on them, a row has the requests and HTTP messages that cooperating programs \
            report, and not the bytes of sockets: such rows never add up to the total. Each is of one role, because a \
            client and a server of this machine may both report a request. An interface counts link headers, and \
            whatever passes it.

            EXAMPLES
              trafficctl history                                  the last day, by process
              trafficctl history --since month --by unit --limit 10
              trafficctl history --since 7d --bucket day --by total
              trafficctl history --since 2026-11-01 --until 2026-11-08 --by user,process
              trafficctl history --since 30d --by scope           how far the bytes went
              trafficctl history --since 7d --by route            the requests of programs that report
              trafficctl history --since 7d --by unit --filter host:api.example.com
              trafficctl history --since month --by interface     as the interfaces count
              trafficctl history --since 30d --bucket day --format csv >history.csv
              trafficctl history --since 7d --bucket day --by total --filter unit:nginx
              trafficctl history --month                          with the 95th percentile
              trafficctl history --month 2026-10 --scope internet --exceeding 100M
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @Option(
        help: ArgumentHelp(
            "From when: a time ago (3d, 6h, 1w), a date (2026-11-01, 2026-11-01T14:30, 2026-11), yesterday, last-month, or hour, day, month or year: since this one began. (default: 1d)",
            valueName: "time"
        )
    )
    var since: PointInTime?

    @Option(help: ArgumentHelp("Until when, written like --since. (default: now)", valueName: "time"))
    var until: PointInTime?

    @Option(
        help:
            "A row for each of these times; 5minute with --by total, scope, class or interface alone. (default: one row for the whole time)"
    )
    var bucket: HistoryLevel?

    @Option(
        help: ArgumentHelp(
            "How to divide the bytes: process, user, unit, container, host, route (with its host), or several of these with commas between; or scope, class, interface or total. (default: process)",
            valueName: "words"
        )
    )
    var by: String?

    @Option(
        name: .shortAndLong,
        // A filter may begin with the minus that negates a term.
        parsing: .unconditional,
        help: ArgumentHelp(
            "Only bytes of processes that match all terms, such as 'user:www-data process:nginx', of requests also 'host:api route:/users', and rows such as 'rx>1G'; -term excludes.",
            valueName: "terms"
        )
    )
    var filter: String?

    @Option(
        name: [.customShort("n"), .customLong("limit")],
        help: ArgumentHelp(
            "At most so many names, those with the most payload. The table and JSON add up the others. (default for tables: 20)",
            valueName: "n"
        )
    )
    var top: Int?

    @Option(
        defaultAsFlag: Month.present,
        help: ArgumentHelp(
            "The report of a month: totals, average, the day with the most, 95th percentile of the rates of 5 minutes, projection.",
            valueName: "YYYY-MM"
        )
    )
    var month: Month?

    @Option(
        help: ArgumentHelp(
            "With --month: how many intervals of 5 minutes were above this rate in bits per second, such as 100M.",
            valueName: "rate"
        )
    )
    var exceeding: BitRate?

    @Option(help: "With --month: the bytes of this scope alone.")
    var scope: SocketScope?

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp("With --month: the bytes of this class of remote addresses alone.", valueName: "name")
    )
    var addressClass: String?

    @Option(help: "table: for people. tsv, csv, ndjson: the rows, by the JSON names of their fields. json: everything.")
    var format = RowOptions.Format.table

    func validate() throws {
        if let top, !(1...HistoryQuestion.mostNames).contains(top) {
            throw ValidationError("--limit must be between 1 and \(HistoryQuestion.mostNames).")
        }
        _ = try HistoryQuestion(by: self.words, bucket: self.bucket, filter: self.filter)
        try self.validateMonth()
        let now = Int64(time(nil))
        let begin = self.begin.seconds(now: now)
        guard begin <= now else { throw ValidationError("--since \(self.begin) is in the future.") }
        if let until, until.seconds(now: now) <= begin { throw ValidationError("--until must be later than --since.") }
    }

    private var begin: PointInTime { self.since ?? .ago(TimeSpan(seconds: 86_400)) }

    private var words: String { self.by ?? "process" }

    func run() async throws {
        if let month { return try await self.printMonth(month) }
        let now = Int64(time(nil))
        let top = self.top ?? (self.format == .table ? 20 : nil)
        let query: [(String, String?)] = [
            ("since", Self.text(self.begin, now)), ("until", self.until.map { Self.text($0, now) }),
            ("bucket", self.bucket?.rawValue), ("by", self.words), ("filter", self.filter),
            ("limit", top.map { String($0) }),
        ]
        let client = try self.connection.client
        let output = StandardStream.output
        if let format = self.format.export {
            return try await client.stream("/v1/history", query + [("format", format.rawValue)]) {
                try output.write($0)
            }
        }
        let report = try await client.get("/v1/history", query).decoded(as: HistoryReport.self)
        try output.write(Self.heading(of: report, self.unit.units))
        try Table.history(report)
            .write(
                units: self.unit.units,
                color: self.color,
                ifEmpty: self.emptyText(report)
            )
    }

    private func emptyText(_ report: HistoryReport) -> String {
        if self.filter != nil { return "Nothing passes the filter." }
        guard case .messages = report.sums else { return "No bytes yet: a minute is in history when it is over." }
        return "No requests: programs have to report them, and a minute is in history when it is over."
    }

    private static func text(_ time: PointInTime, _ now: Int64) -> String {
        Timestamp(nanosecondsSinceEpoch: time.seconds(now: now) *| 1_000_000_000).description
    }

    static func heading(of report: HistoryReport, _ units: Units) -> String {
        let span = "\(report.localSince?.minute ?? "") to \(report.localUntil?.minute ?? "")"
        let nanoseconds = report.until.nanosecondsSinceEpoch - report.since.nanosecondsSinceEpoch
        // The last minute is not over, and the one before may be under way to the file.
        let missing = nanoseconds / 1_000_000_000 - Int64(clamping: report.countedSeconds)
        let gap = missing < 120 ? "" : ", \(self.rounded(seconds: missing)) of it not counted"
        let amount = { (bytes: UInt64) in units.text(bytes) }
        let (sent, received) = (amount(report.sums.sum.sent), amount(report.sums.sum.received))
        var what = ""
        if case .messages(let counts) = report.sums { what = "\(counts.requests) requests, " }
        let line = "\(report.host), \(span)\(gap): \(what)sent \(sent), received \(received)"
        return Typeface.ascii.printable(line) + "\n"
    }

    /// `3 days`, for times of two minutes and more.
    static func rounded(seconds: Int64) -> String {
        for (name, length) in [("days", Int64(86_400)), ("hours", 3_600)] where seconds >= 2 * length {
            return "\((seconds + length / 2) / length) \(name)"
        }
        return "\((seconds + 30) / 60) minutes"
    }
}

extension HistoryLevel: ExpressibleByArgument {}

extension HistoryQuestion {
    /// A question about all times, in the words of options.
    ///
    /// - Throws: `ValidationError` that names the option.
    init(by words: String?, bucket: HistoryLevel?, filter: String?) throws {
        self.init(since: Timestamp(nanosecondsSinceEpoch: 0), bucket: bucket)
        do throws(HistoryWordError) {
            if let words { self.by = try [HistoryDimension](words: words) }
        } catch {
            throw ValidationError("--by: \(error).")
        }
        do throws(FilterError) {
            self.filter = try HistoryFilter(filter ?? "")
        } catch {
            throw ValidationError("--filter: \(error)")
        }
        do throws(HistoryWordError) {
            try self.check()
        } catch {
            throw ValidationError("\(error).")
        }
    }
}
