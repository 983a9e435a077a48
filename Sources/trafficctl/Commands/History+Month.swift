public import ArgumentParser
import TrafficDocuments
import TrafficExport
public import TrafficModel
import TrafficQuery
import TrafficView

extension History {
    /// Which month: `2026-11`, or the present one.
    enum Month: ExpressibleByArgument, CustomStringConvertible {
        case present
        case named(CalendarMonth)
        /// Kept for ``History/validateMonth()``: refused here, it would be taken for another argument.
        case senseless(String)

        init?(argument: String) { self = CalendarMonth(argument).map { .named($0) } ?? .senseless(argument) }

        var description: String {
            switch self {
            case .present: "this month"
            case .named(let month): month.description
            case .senseless(let text): text
            }
        }
    }

    /// A rate as providers write it: `100M`, `1.5Gbit/s`.
    struct BitRate: ExpressibleByArgument {
        var bitsPerSecond: UInt64

        init?(argument: String) {
            let text = argument.hasSuffix("/s") ? String(argument.dropLast(2)) : argument
            guard let number = Amount.number(text, unit: "bit"), 1..<1e18 ~= number else { return nil }
            self.bitsPerSecond = UInt64(number)
        }
    }

    /// - Throws: `ValidationError` for options that have no meaning together.
    func validateMonth() throws {
        let others: [(String, Bool)] = [
            ("--since", self.since != nil), ("--until", self.until != nil), ("--bucket", self.bucket != nil),
            ("--by", self.by != nil), ("--filter", self.filter != nil), ("--limit", self.top != nil),
        ]
        let own: [(String, Bool)] = [
            ("--exceeding", self.exceeding != nil), ("--scope", self.scope != nil),
            ("--class", self.addressClass != nil),
        ]
        guard self.month != nil else {
            if let option = own.first(where: \.1)?.0 { throw ValidationError("\(option) needs --month.") }
            return
        }
        if case .senseless(let text) = self.month {
            throw ValidationError("--month: '\(text)' is not a month such as 2026-11.")
        }
        if let option = others.first(where: \.1)?.0 {
            throw ValidationError("--month is the report of a whole month: leave out \(option), or leave out --month.")
        }
        if self.scope != nil, self.addressClass != nil {
            throw ValidationError("--scope and --class can't be combined.")
        }
    }

    func printMonth(_ month: Month) async throws {
        var query: [(String, String?)] = [
            ("exceeding", self.exceeding.map { "\($0.bitsPerSecond)" }), ("scope", self.scope?.rawValue),
            ("class", self.addressClass),
        ]
        if case .named(let month) = month { query.append(("month", month.description)) }
        let (client, output) = (try self.connection.client, StandardStream.output)
        if let format = self.format.export {
            return try await client.stream("/v1/history/month", query + [("format", format.rawValue)]) {
                try output.write($0)
            }
        }
        let report = try await client.get("/v1/history/month", query).decoded(as: MonthReport.self)
        try output.write(Self.heading(of: report))
        try Table.month(report, units: self.unit.units)
            .write(units: self.unit.units, color: self.color)
        let width = output.columns ?? environment("COLUMNS").flatMap { Int($0) }
        let notes = report.notes(width: width, typeface: TerminalLocale.typeface(ascii: false))
        try output.write(notes.map { $0 + "\n" }.joined())
    }

    private static func heading(of report: MonthReport) -> String {
        let part = [report.scope.map { ", scope \($0)" }, report.addressClass.map { ", class \($0)" }]
            .compactMap { $0 }.joined()
        // A month that is over ends where the next one begins.
        let isOver = report.localUntil?.month != report.month.description
        let span = "\(report.month)" + (isOver ? "" : " up to \(report.localUntil?.minute ?? "")")
        let counted = Self.rounded(seconds: Int64(clamping: report.countedSeconds))
        let missing = Self.rounded(seconds: Int64(clamping: report.missingSeconds))
        let gap = report.missingSeconds < 120 ? "" : ", \(missing) missing"
        return Typeface.ascii.printable("\(report.host), \(span)\(part): \(counted) counted\(gap)") + "\n"
    }
}

extension SocketScope: ExpressibleByArgument {}
