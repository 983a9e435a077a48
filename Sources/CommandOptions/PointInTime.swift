public import ArgumentParser
import Glibc

/// A time as people write it: `3d` ago, `2026-11-01`, `2026-11-01T14:30`, `2026-11`, or the beginning of this `hour`, `day`,
/// `month` or `year`, of `yesterday` or of `last-month`. Dates are in the local time zone unless they end with `Z`.
public enum PointInTime: ExpressibleByArgument, Hashable, Sendable, CustomStringConvertible {
    case ago(TimeSpan)
    case beginning(Part)
    /// Of the day or month before this one.
    case beginningOfLast(Part)
    case date(year: Int32, month: Int32, day: Int32, hour: Int32, minute: Int32, second: Int32, isUTC: Bool)

    public enum Part: String, Sendable, Hashable, CaseIterable {
        case hour, day, month, year
    }

    public init?(argument: String) {
        if let part = Part(rawValue: argument == "today" ? "day" : argument) {
            self = .beginning(part)
        } else if argument == "yesterday" || argument == "last-month" {
            self = .beginningOfLast(argument == "yesterday" ? .day : .month)
        } else if let span = TimeSpan(argument: argument), Double(argument) == nil {
            self = .ago(span)
        } else if let date = Self(date: argument) {
            self = date
        } else {
            return nil
        }
    }

    /// `YYYY-MM`; or `YYYY-MM-DD`, then a space or `T` and `HH:MM` or `HH:MM:SS`.
    private init?(date text: String) {
        var rest = (text.utf8.count == 7 ? text + "-01" : text)[...]
        let isUTC = rest.last == "Z"
        if isUTC { rest.removeLast() }
        let halves = rest.split(maxSplits: 1, omittingEmptySubsequences: false) { $0 == "T" || $0 == " " }
        let day = halves[0].split(separator: "-", omittingEmptySubsequences: false).map { Self.number($0) }
        let time =
            halves.count > 1
            ? halves[1].split(separator: ":", omittingEmptySubsequences: false).map { Self.number($0) } : [0, 0]
        guard day.count == 3, let year = day[0], let month = day[1], let dayOfMonth = day[2],
            2...3 ~= time.count, let hour = time[0], let minute = time[1], let second = time.count > 2 ? time[2] : 0,
            1970...9999 ~= year, 1...12 ~= month, 1...Self.days(of: month, year) ~= dayOfMonth, 0...23 ~= hour,
            0...59 ~= minute,
            0...59 ~= second
        else { return nil }
        self = .date(
            year: year,
            month: month,
            day: dayOfMonth,
            hour: hour,
            minute: minute,
            second: second,
            isUTC: isUTC
        )
    }

    /// How many days a month has in the Gregorian calendar.
    private static func days(of month: Int32, _ year: Int32) -> Int32 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func number(_ text: Substring) -> Int32? {
        1...4 ~= text.count && text.utf8.allSatisfy { 0x30...0x39 ~= $0 } ? Int32(text) : nil
    }

    /// - Parameter now: Seconds since 1970.
    /// - Returns: Seconds since 1970. A time of day that the clock skips is an hour later, as mktime(3) has it.
    public func seconds(now: Int64) -> Int64 {
        switch self {
        case .ago(let span): return max(0, now - Int64(min(span.seconds, 1e12)))
        case .beginning(let part), .beginningOfLast(let part):
            var (time, local) = (time_t(now), tm())
            guard unsafe localtime_r(&time, &local) != nil else { return now }
            let isLast = if case .beginningOfLast = self { true } else { false }
            if part == .hour { return now - Int64(local.tm_min) * 60 - Int64(local.tm_sec) }
            (local.tm_hour, local.tm_min, local.tm_sec, local.tm_isdst) = (0, 0, 0, -1)
            if part != .day { local.tm_mday = 1 }
            if part == .year { local.tm_mon = 0 }
            // mktime(3) knows what comes before the first day and the first month.
            if isLast, part == .day { local.tm_mday -= 1 }
            if isLast, part == .month { local.tm_mon -= 1 }
            return Int64(mktime(&local))
        case .date(let year, let month, let day, let hour, let minute, let second, let isUTC):
            var time = tm()
            (time.tm_year, time.tm_mon, time.tm_mday) = (year - 1900, month - 1, day)
            (time.tm_hour, time.tm_min, time.tm_sec, time.tm_isdst) = (hour, minute, second, -1)
            return Int64(isUTC ? timegm(&time) : mktime(&time))
        }
    }

    public var description: String {
        switch self {
        case .ago(let span): return span.description
        case .beginning(let part): return part.rawValue
        case .beginningOfLast(let part): return part == .day ? "yesterday" : "last-month"
        case .date(let year, let month, let day, let hour, let minute, let second, let isUTC):
            func two(_ number: Int32) -> String { (number < 10 ? "0" : "") + String(number) }
            return "\(year)-\(two(month))-\(two(day))T\(two(hour)):\(two(minute)):\(two(second))" + (isUTC ? "Z" : "")
        }
    }

    public var defaultValueDescription: String { self.description }
}
