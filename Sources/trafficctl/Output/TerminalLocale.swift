import CNcurses
import Glibc
import TrafficView

/// What the environment says of the terminal's characters.
enum TerminalLocale {
    /// - Parameter ascii: Draw with ASCII although the locale has more.
    static func typeface(ascii: Bool) -> Typeface {
        _ = unsafe setlocale(LC_CTYPE, "")
        let charset = unsafe nl_langinfo(nl_item(CODESET)).map { unsafe String(cString: $0) }
        guard !ascii, charset == "UTF-8" else { return .ascii }
        // The same function that ncurses asks.
        return .unicode { Int(wcwidth(wchar_t($0.value))) }
    }
}
