import Glibc
public import TrafficModel

/// Facts about the machine and the present time.
public enum HostFacts {
    /// The name of a user; `nil` if it has none. May wait for a directory service.
    public static func userName(_ uid: UInt32) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16384)
        getpwuid_r(uid, &entry, &buffer, buffer.count, &found)
        return found.map { String(cString: $0.pointee.pw_name) }
    }

    public static func description() -> HostDescription {
        var name = utsname()
        uname(&name)
        let text = { (path: String) in TrafficCapture.text(ofFile: path)?.trimmed ?? "" }
        return HostDescription(
            name: withUnsafeBytes(of: name.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) },
            bootID: text("/proc/sys/kernel/random/boot_id"),
            kernel: withUnsafeBytes(of: name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        )
    }

    public static func daemon(version: String) -> DaemonDescription {
        DaemonDescription(version: version, pid: getpid(), startedAt: .now)
    }

    /// The end of a round of observations.
    public static func tick() -> CaptureEvent {
        .tick(at: .now, boottimeNanoseconds: MonotonicClock.boottimeNanoseconds())
    }

    /// The end of a round between two ticks.
    public static func look() -> CaptureEvent {
        .look(at: .now, boottimeNanoseconds: MonotonicClock.boottimeNanoseconds())
    }
}
