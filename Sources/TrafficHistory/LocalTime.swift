import Glibc
package import TrafficDocuments
package import TrafficModel

extension HistoryLevel {
    /// The beginning of the minute, 5 minutes, hour, day or month in which `time` lies, in the host's local time.
    ///
    /// Where the clock is put forward at midnight, a day begins at the time that mktime(3) gives for 0:00.
    ///
    /// - Parameter time: Seconds since 1970.
    package func start(of time: Int64) -> Int64 {
        let minute = time - (time % 60 + 60) % 60
        guard self != .minute else { return minute }
        // The same in local time: every zone's clock differs from UTC by a multiple of 5 minutes.
        guard self != .fiveMinutes else { return minute - (minute % 300 + 300) % 300 }
        var (seconds, local) = (time_t(minute), tm())
        guard unsafe localtime_r(&seconds, &local) != nil else { return minute }
        // Not by mktime(): the hour that comes twice when the clock is put back has two beginnings.
        guard self != .hour else { return minute - Int64(local.tm_min) * 60 }
        local.tm_hour = 0
        local.tm_min = 0
        local.tm_sec = 0
        if self == .month { local.tm_mday = 1 }
        local.tm_isdst = -1
        let start = mktime(&local)
        return start == -1 ? minute : Int64(start)
    }

    /// The end of a minute, 5 minutes, hour, day or month, which is the beginning of the next one.
    ///
    /// - Parameter start: As ``start(of:)`` returned it.
    package func end(of start: Int64) -> Int64 {
        switch self {
        case .minute: start + 60
        case .fiveMinutes: start + 300
        case .hour: start + 3_600
        // A time that is surely in the next one: a day has at most 25 hours, a month at most 31 of these.
        case .day: self.start(of: start + 26 * 3_600)
        case .month: self.start(of: start + 32 * 86_400)
        }
    }
}

extension HistoryLevel {
    /// No minute, 5 minutes, hour, day or month is shorter: seconds.
    var leastSeconds: Int64 {
        switch self {
        case .minute: 60
        case .fiveMinutes: 300
        case .hour: 3_600
        case .day: 23 * 3_600
        case .month: 28 * 86_400 - 3_600
        }
    }
}

extension HostTime {
    /// In the host's time zone.
    ///
    /// - Parameter time: Seconds since 1970.
    init(of time: Int64) { self.init(Timestamp(seconds: time), offset: Self.offset(at: time)) }

    /// - Returns: Seconds east of UTC at that time in the host's time zone.
    static func offset(at time: Int64) -> Int64 {
        var (seconds, local) = (time_t(time), tm())
        guard unsafe localtime_r(&seconds, &local) != nil else { return 0 }
        return Int64(local.tm_gmtoff)
    }

    /// The name of the host's time zone in the IANA database. `nil` if `TZ` (tzset(3)) or `/etc/localtime` has no such name.
    package static var zoneName: String? {
        if let zone = unsafe getenv("TZ") {
            let text = unsafe String(cString: zone)
            let name = text.hasPrefix(":") ? String(text.dropFirst()) : text
            // Without a name, or with one that is not known, glibc takes UTC.
            if name.isEmpty { return "UTC" }
            let isPath = name.hasPrefix("/") || name.utf8.contains(UInt8(ascii: "."))
            return !isPath && access("/usr/share/zoneinfo/\(name)", R_OK) == 0 ? name : nil
        }
        guard let path = unsafe realpath("/etc/localtime", nil) else { return "UTC" }
        defer { unsafe free(path) }
        let parts = unsafe String(cString: path).split(separator: "/zoneinfo/")
        return parts.count == 2 ? String(parts[1]) : nil
    }
}

extension CalendarMonth {
    /// The month in which `time` lies, in the host's local time.
    ///
    /// - Parameter time: Seconds since 1970.
    package init?(of time: Int64) {
        var (seconds, local) = (time_t(time), tm())
        guard unsafe localtime_r(&seconds, &local) != nil else { return nil }
        self.init(year: Int(local.tm_year) + 1900, month: Int(local.tm_mon) + 1)
    }

    /// Its beginning, as ``HistoryLevel/start(of:)`` has it: seconds since 1970.
    package var start: Int64 {
        var local = tm()
        (local.tm_year, local.tm_mon, local.tm_mday) = (Int32(self.year - 1900), Int32(self.month - 1), 1)
        local.tm_isdst = -1
        return Int64(mktime(&local))
    }
}
