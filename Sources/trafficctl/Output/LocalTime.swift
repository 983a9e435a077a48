import Glibc
import TrafficModel

/// Times as the clock of the person who asks shows them.
enum LocalTime {
    /// `2026-11-25 14:30`.
    static func withMinutes(_ time: Timestamp) -> String { self.text(time, "%Y-%m-%d %H:%M") }

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
}
