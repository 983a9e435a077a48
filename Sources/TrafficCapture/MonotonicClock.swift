import CLinux
import Glibc

package enum MonotonicClock {
    /// `CLOCK_MONOTONIC`: for waiting.
    package static func nanoseconds() -> UInt64 { read(CLOCK_MONOTONIC) }

    /// `CLOCK_BOOTTIME`: goes on during suspend. The kernel uses this clock for the times of processes and sockets.
    package static func boottimeNanoseconds() -> UInt64 { read(CLOCK_BOOTTIME) }

    /// `CLOCK_REALTIME`: may jump; only for display.
    package static func wallNanoseconds() -> Int64 { Int64(read(CLOCK_REALTIME)) }

    /// The value of `CLOCK_REALTIME` when `CLOCK_BOOTTIME` was 0, computed from the present values of both clocks.
    package static func bootedAtWallNanoseconds() -> Int64 { wallNanoseconds() - Int64(boottimeNanoseconds()) }

    /// `CLOCK_THREAD_CPUTIME_ID`: the processor time that the calling thread has used.
    package static func threadNanoseconds() -> UInt64 { read(CLOCK_THREAD_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
