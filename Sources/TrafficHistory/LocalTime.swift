import Glibc
package import TrafficModel

extension HistoryLevel {
    /// The beginning of the minute, hour, day or month in which `time` lies, in the host's local time.
    ///
    /// Where the clock is put forward at midnight, a day begins at the time that mktime(3) gives for 0:00.
    ///
    /// - Parameter time: Seconds since 1970.
    package func start(of time: Int64) -> Int64 {
        let minute = time - (time % 60 + 60) % 60
        guard self != .minute else { return minute }
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
}
