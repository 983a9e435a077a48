import Glibc

/// Ends the wait of a thread in poll(2). Any thread may use it, and a signal handler too.
struct WakePipe: ~Copyable {
    let readEnd: Int32
    let writeEnd: Int32

    /// - Throws: `TerminalError.failed`.
    init() throws(TerminalError) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw .failed(call: "pipe", error: errno) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        self.readEnd = ends[0]
        self.writeEnd = ends[1]
    }

    deinit {
        close(self.readEnd)
        close(self.writeEnd)
    }

    /// Waits for a wake.
    func wait() {
        var polled = pollfd(fd: self.readEnd, events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&polled, 1, -1)
        self.drain()
    }

    /// Discards all wakes so far.
    func drain() {
        var buffer: InlineArray<64, UInt8> = InlineArray(repeating: 0)
        while unsafe withUnsafeMutableBytes(of: &buffer, { unsafe read(self.readEnd, $0.baseAddress, $0.count) }) > 0 {}
    }
}
