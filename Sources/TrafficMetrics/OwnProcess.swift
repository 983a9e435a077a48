import Glibc

/// What the daemon itself takes of the machine.
public struct OwnProcess: Sendable, Hashable {
    /// Processor time in user and kernel mode, of all threads.
    public var cpuSeconds: Double
    /// Memory that is resident. `nil` if /proc does not tell. The same holds for the next one.
    public var residentBytes: UInt64?
    /// File descriptors.
    public var openDescriptors: UInt64?
    /// The most file descriptors that the process may have.
    public var descriptorLimit: UInt64

    /// As of now: clock_gettime(2), proc_pid_statm(5), getrlimit(2).
    public static func now() -> OwnProcess {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return OwnProcess(
            cpuSeconds: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9,
            residentBytes: Self.residentPages().map { $0 * UInt64(sysconf(Int32(_SC_PAGESIZE))) },
            openDescriptors: Self.countDescriptors(),
            descriptorLimit: UInt64(limit.rlim_cur)
        )
    }

    private static func residentPages() -> UInt64? {
        guard let file = fopen("/proc/self/statm", "re") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let words = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self).split(separator: " ")
        return words.count > 1 ? UInt64(words[1]) : nil
    }

    private static func countDescriptors() -> UInt64? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count: UInt64 = 0
        while let entry = readdir(directory) {
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        // The open directory is one of them.
        return count > 0 ? count - 1 : nil
    }
}
