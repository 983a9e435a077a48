import Glibc
public import TrafficEvents
public import TrafficModel

/// Facts about the machine and the present time.
public enum HostFacts {
    /// What the host's user database says of a user.
    package enum UserName: Sendable, Equatable {
        /// `nil`: the user has none.
        case known(String?)
        /// The database, or a directory service, does not answer.
        case unavailable
    }

    /// The name of a user. May wait for a directory service.
    package static func userName(_ uid: UInt32) -> UserName {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16384)
        let error = getpwuid_r(uid, &entry, &buffer, buffer.count, &found)
        if let found { return .known(String(cString: found.pointee.pw_name)) }
        // Of these errors getpwnam(3) says that some systems mean "not found".
        return [0, ENOENT, ESRCH, EBADF, EPERM].contains(error) ? .known(nil) : .unavailable
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
