import CNcurses
import Glibc
import TrafficView

/// What the environment says about the terminal's characters.
enum TerminalLocale {
    /// - Parameter ascii: Draw with ASCII even where the locale has more characters.
    static func typeface(ascii: Bool) -> Typeface {
        _ = unsafe setlocale(LC_CTYPE, "")
        let charset = unsafe nl_langinfo(nl_item(CODESET)).map { unsafe String(cString: $0) }
        guard !ascii, charset == "UTF-8" else { return .ascii }
        // ncurses asks the same function.
        return .unicode { Int(wcwidth(wchar_t($0.value))) }
    }
}
