import Glibc

/// Why a full screen is not possible here.
enum TerminalError: Error, Equatable {
    case notATerminal
    /// - Parameter type: The value of `TERM`; `nil` where `TERM` is not set.
    case unknownType(String?)
    /// A terminal that can't move its cursor.
    case hardcopy(String)
    /// - Parameter error: errno.
    case failed(call: String, error: Int32)
}

extension TerminalError: CustomStringConvertible {
    var description: String {
        switch self {
        case .notATerminal:
            "top needs a terminal for its input and output; for one picture as text: trafficctl top --once"
        case .unknownType(nil):
            "TERM is not set; set it (export TERM=xterm-256color), or take one picture as text: trafficctl top --once"
        case .unknownType(let type?):
            "terminfo does not know the terminal '\(type)'; install ncurses-term or set TERM (export TERM=xterm-256color), "
                + "or take one picture as text: trafficctl top --once"
        case .hardcopy(let type):
            "the terminal '\(type)' has no cursor to move; take one picture as text: trafficctl top --once"
        case .failed(let call, let error):
            "\(call): \(unsafe String(cString: strerror(error)))"
        }
    }
}
