import Glibc
import TrafficDocuments
import TrafficModel

/// Times and users as this host names them.
enum LocalTime {
    /// `2026-11-25 14:30`, and only as much of it as differs between two sums of a level.
    static func text(_ time: Timestamp, _ level: HistoryLevel) -> String {
        let format =
            switch level {
            case .minute, .fiveMinutes, .hour: "%Y-%m-%d %H:%M"
            case .day: "%Y-%m-%d"
            case .month: "%Y-%m"
            }
        return self.text(time, format)
    }

    /// `2026-11-25 14:30:05`.
    static func withSeconds(_ time: Timestamp) -> String { self.text(time, "%Y-%m-%d %H:%M:%S") }

    /// - Parameter format: For strftime(3).
    private static func text(_ time: Timestamp, _ format: String) -> String {
        var seconds = time_t(time.nanosecondsSinceEpoch / 1_000_000_000)
        var local = tm()
        guard unsafe localtime_r(&seconds, &local) != nil else { return time.description }
        var buffer = [CChar](repeating: 0, count: 32)
        let length = unsafe strftime(&buffer, buffer.count, format, &local)
        return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// - Returns: `nil` if the host has no such user.
    static func user(_ uid: UInt32) -> String? {
        guard let entry = unsafe getpwuid(uid), let name = unsafe entry.pointee.pw_name else { return nil }
        return unsafe String(cString: name)
    }
}
