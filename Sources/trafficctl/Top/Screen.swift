import CNcurses
import CTerminal
import Glibc
import TrafficView

/// The terminal in full-screen mode, for as long as this value lives. Only one thread may use it, because ncurses has
/// no locks.
///
/// The terminal is put back when this value is destroyed and, by CTerminal's handlers, when the process crashes.
struct Screen: ~Copyable {
    private let palette: Palette
    private var pairs: [Pair: Int16] = [:]
    /// Whether the terminal reports its mouse to us.
    private let hasMouse: Bool
    /// The mouse report that has begun.
    private var report: MouseReport?
    /// Characters of a report in xterm's older protocol that are still to come. A terminal that does not know SGR sends
    /// such reports; they mean nothing here.
    private var charactersToSkip = 0

    private struct Pair: Hashable {
        var foreground: Int16
        var background: Int16
    }

    /// - Throws: ``TerminalError`` where standard input and output are no terminal for a full screen.
    init(inColor: Bool, takesMouse: Bool) throws(TerminalError) {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else { throw .notATerminal }
        // newterm(3) says that it failed, but not why.
        var status: Int32 = 0
        guard unsafe setupterm(nil, STDOUT_FILENO, &status) == 0 else {
            let type = environment("TERM")
            throw status == 1 ? .hardcopy(type ?? "") : .unknownType(type)
        }
        guard unsafe tigetstr("cup") != nil, tigetnum("cols") != 0 else { throw .hardcopy(environment("TERM") ?? "") }
        let error = Self.armGuard()
        guard error == 0 else { throw .failed(call: "tcgetattr", error: error) }
        guard unsafe screen_open() != nil else {
            terminal_guard_disarm()
            throw .unknownType(environment("TERM"))
        }
        cbreak()
        noecho()
        nonl()
        // 25 ms are enough to tell the key Esc from the first byte of another key's sequence, also over a slow line.
        set_escdelay(25)
        let window = unsafe screen_window()
        unsafe keypad(window, true)
        unsafe nodelay(window, true)
        curs_set(0)
        self.hasMouse = takesMouse && screen_await_mouse()
        var palette = Palette.monochrome
        if inColor, has_colors() {
            start_color()
            use_default_colors()
            palette = Palette(colors: Int(screen_colors()))
        }
        self.palette = palette
        self.setMouse(true)
    }

    deinit {
        self.setMouse(false)
        endwin()
        terminal_guard_disarm()
    }

    /// Must run before newterm(3), which changes the settings that have to be put back.
    private static func armGuard() -> Int32 {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress else { return ENOMEM }
            let length = unsafe screen_leave_sequence(start, buffer.count)
            return unsafe terminal_guard_arm(STDOUT_FILENO, start, length)
        }
    }

    // MARK: Size, suspend

    var size: TopState.Size {
        let window = unsafe screen_window()
        return unsafe TopState.Size(width: Int(getmaxx(window)), height: Int(getmaxy(window)))
    }

    /// Takes on the size that the terminal has now.
    mutating func adoptSize() {
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, size.ws_col > 0 else {
            return
        }
        resizeterm(Int32(size.ws_row), Int32(size.ws_col))
        self.redrawFromScratch()
    }

    /// Makes the next ``draw(_:)`` send the whole picture.
    mutating func redrawFromScratch() {
        unsafe clearok(screen_window(), true)
    }

    /// Gives the terminal back and stops the process. Takes the terminal again when the process continues.
    mutating func suspend() {
        self.setMouse(false)
        endwin()
        terminal_suspend()
        self.resume()
    }

    /// Takes the terminal after the process was continued, because a shell may have used the terminal meanwhile.
    mutating func resume() {
        reset_prog_mode()
        self.setMouse(true)
        self.adoptSize()
    }

    private func setMouse(_ isOn: Bool) {
        guard self.hasMouse else { return }
        let sequence = isOn ? SCREEN_MOUSE_ON : SCREEN_MOUSE_OFF
        _ = unsafe write(STDOUT_FILENO, sequence, sequence.utf8.count)
    }

    // MARK: Drawing

    /// Puts `frame` on the terminal. ncurses sends only what differs from the picture before.
    mutating func draw(_ frame: Frame) {
        let window = unsafe screen_window()
        screen_set_style(0, 0)
        unsafe werase(window)
        for (index, row) in frame.rows.enumerated() {
            unsafe wmove(window, Int32(index), 0)
            for span in row.spans {
                self.setStyle(span.style)
                unsafe waddnstr(window, span.text, -1)
            }
        }
        screen_set_style(0, 0)
        if let cursor = frame.cursor {
            unsafe wmove(window, Int32(cursor.row), Int32(cursor.column))
            curs_set(1)
        } else {
            curs_set(0)
        }
        unsafe wrefresh(window)
    }

    private mutating func setStyle(_ style: Style) {
        let look = self.palette.look(style)
        var attributes: UInt32 = 0
        if look.isBold { attributes |= screen_bold() }
        if look.isDim { attributes |= screen_dim() }
        if look.isReversed { attributes |= screen_reverse() }
        screen_set_style(attributes, self.pair(look))
    }

    private mutating func pair(_ look: Look) -> Int16 {
        guard look.foreground != nil || look.background != nil else { return 0 }
        let pair = Pair(foreground: look.foreground ?? -1, background: look.background ?? -1)
        if let number = self.pairs[pair] { return number }
        let number = Int16(self.pairs.count + 1)
        guard Int32(number) < screen_color_pairs() else { return 0 }
        init_pair(number, pair.foreground, pair.background)
        self.pairs[pair] = number
        return number
    }

    // MARK: Keys and mouse

    /// More is read in the next round of the loop, so that a terminal that never falls silent can't stop the loop.
    private static let mostCharacters = 1_024

    /// The keys that were typed, and what the mouse did.
    mutating func nextKeys() -> [Key] {
        var keys: [Key] = []
        for _ in 0..<Self.mostCharacters {
            var code: wint_t = 0
            switch unsafe wget_wch(screen_window(), &code) {
            case KEY_CODE_YES:
                self.report = nil
                self.charactersToSkip = 0
                if Int32(code) == screen_mouse_report_key() {
                    self.report = MouseReport()
                } else if Int32(code) == KEY_MOUSE {
                    self.charactersToSkip = 3
                } else if let key = Self.functionKey(Int32(code)) {
                    keys.append(key)
                }
            case OK:
                if let key = self.key(code) { keys.append(key) }
            default:
                // A report comes in one piece.
                self.charactersToSkip = 0
                return keys
            }
        }
        return keys
    }

    /// - Returns: `nil` for a character that is part of a report, or that means nothing.
    private mutating func key(_ code: wint_t) -> Key? {
        if self.charactersToSkip > 0 {
            self.charactersToSkip -= 1
            return nil
        }
        guard var report = self.report else { return Self.characterKey(code) }
        self.report = nil
        switch report.take(Unicode.Scalar(code) ?? "?") {
        case .unfinished:
            self.report = report
            return nil
        case .finished(let key):
            return key
        }
    }

    private static func functionKey(_ code: Int32) -> Key? {
        switch code {
        case KEY_F0 + 1...KEY_F0 + 12: .function(Int(code - KEY_F0))
        case KEY_UP: .up
        case KEY_DOWN: .down
        case KEY_LEFT: .left
        case KEY_RIGHT: .right
        case KEY_PPAGE: .pageUp
        case KEY_NPAGE: .pageDown
        case KEY_HOME: .home
        case KEY_END: .end
        case KEY_ENTER: .enter
        case KEY_BACKSPACE: .backspace
        case KEY_DC: .delete
        default: nil
        }
    }

    private static func characterKey(_ code: wint_t) -> Key? {
        switch code {
        case 0x0d, 0x0a: return .enter
        case 0x1b: return .escape
        case 0x7f, 0x08: return .backspace
        case 0x09: return .tab
        case 1...26: return Unicode.Scalar(code + 0x60).map { .control(Character($0)) }
        case ..<0x20: return nil
        default: return Unicode.Scalar(code).map { .character(Character($0)) }
        }
    }
}
