import CTerminal
import Glibc
import TrafficModel
import TrafficView

/// Writes a byte to a ``WakePipe``. A full pipe wakes the reader anyway.
func wake(_ descriptor: Int32) {
    var byte: UInt8 = 0
    _ = unsafe write(descriptor, &byte, 1)
}

/// Joins the screen, the keys, the signals and the daemon's snapshots. One thread waits for any of them, changes the
/// state and draws it.
struct TopLoop: ~Copyable {
    private var state: TopState
    private var screen: Screen
    private let wakePipe: WakePipe
    private let feed: any TopFeed

    /// Catches the signals. The caller gives them back with `terminal_signals_remove()`.
    ///
    /// - Parameter feed: Makes the feed, which gets a descriptor that it writes a byte to when there is news.
    /// - Throws: ``TerminalError``. The terminal is then as it was before.
    init(
        state: TopState,
        feed: (Int32) -> any TopFeed,
        inColor: Bool,
        takesMouse: Bool
    ) throws(TerminalError) {
        let wakePipe = try WakePipe()
        // Before the screen: ncurses' own handlers would end the program and leave the mouse on.
        let error = terminal_signals_install(wakePipe.writeEnd)
        guard error == 0 else { throw .failed(call: "sigaction", error: error) }
        let screen = try Screen(inColor: inColor, takesMouse: takesMouse)
        self.feed = feed(wakePipe.writeEnd)
        self.wakePipe = wakePipe
        self.screen = screen
        self.state = state
    }

    /// Runs until the person quits or a signal ends the program. Signals stay caught, because the terminal is put back
    /// when this value is destroyed, and a signal must not end the process before that.
    ///
    /// - Returns: What the person chose; and the signal, which the caller must raise, or `nil` where there was none.
    consuming func run() -> (settings: TopSettings, signal: Int32?) {
        self.state.resize(to: self.screen.size)
        while !self.state.wantsQuit {
            self.state.tick(now: .now)
            self.feed.start(self.state.demand)
            if self.state.wantsRedraw { self.screen.redrawFromScratch() }
            self.state.wantsRedraw = false
            self.screen.draw(self.state.frame())
            guard self.wait() else { break }
            self.takeNews()
            if !self.takeSignals() { break }
            for key in self.screen.nextKeys() {
                if let action = KeyBindings.action(for: key, in: self.state.mode) { self.state.apply(action) }
            }
        }
        self.feed.stop()
        let signal = terminal_signals_fatal()
        return (self.state.settings, signal == 0 ? nil : signal)
    }

    /// Waits for a key, for a wake, or for one second, after which the ages on the screen have changed.
    ///
    /// - Returns: `false` where the terminal is gone.
    private func wait() -> Bool {
        var polled = [
            pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
            pollfd(fd: self.wakePipe.readEnd, events: Int16(POLLIN), revents: 0),
        ]
        _ = unsafe poll(&polled, 2, 1000)
        self.wakePipe.drain()
        return polled[0].revents & Int16(POLLHUP | POLLERR | POLLNVAL) == 0
    }

    private mutating func takeNews() {
        switch self.feed.takeNews() {
        case .snapshot(let snapshot): self.state.receive(snapshot)
        case .minute(let minute): self.state.receive(minute)
        case .recorded(let snapshot, let index, let time, let request):
            self.state.receive(snapshot, at: index, time: time, for: request)
        case .lost(let failure): self.state.loseConnection(reason: "\(failure)")
        case nil: break
        }
    }

    /// - Returns: `false` where the program must end.
    private mutating func takeSignals() -> Bool {
        let signals = terminal_signals_take()
        if signals & Int32(TERMINAL_STOP) != 0 { return false }
        if signals & Int32(TERMINAL_SUSPEND) != 0 {
            self.screen.suspend()
        } else if signals & Int32(TERMINAL_CONTINUE) != 0 {
            self.screen.resume()
        } else if signals & Int32(TERMINAL_RESIZE) != 0 {
            self.screen.adoptSize()
        }
        self.state.resize(to: self.screen.size)
        return true
    }
}

extension Timestamp {
    /// `CLOCK_REALTIME`.
    static var now: Timestamp {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(nanosecondsSinceEpoch: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }
}
