import TrafficView

/// How a meaning looks with the colours that the terminal has. The 256-colour numbers are xterm's. Each colour is
/// readable on a dark and on a light background, because no program can ask the terminal for its background.
struct Look {
    /// `nil` is the terminal's own colour.
    var foreground: Int16?
    var background: Int16?
    var isBold = false
    var isDim = false
    var isReversed = false
}

enum Palette: Sendable {
    case monochrome, eightColors, manyColors

    init(colors: Int) {
        self = colors >= 256 ? .manyColors : colors >= 8 ? .eightColors : .monochrome
    }

    func look(_ style: Style) -> Look {
        var look = self.look(style.role)
        guard style.isSelected else { return look }
        // The selected row is one bar. Other colours on the bar would be unreadable on some terminals.
        switch self {
        case .monochrome: look.isReversed = true
        case .eightColors: look = Look(foreground: 0, background: 6, isBold: look.isBold)
        case .manyColors: look = Look(foreground: 16, background: 110, isBold: look.isBold)
        }
        look.isDim = false
        return look
    }

    private func look(_ role: Style.Role) -> Look {
        switch self {
        case .monochrome: Self.monochromeLook(role)
        case .eightColors: Self.eightColorLook(role)
        case .manyColors: Self.manyColorLook(role)
        }
    }

    private static func monochromeLook(_ role: Style.Role) -> Look {
        switch role {
        case .plain, .sent, .received, .sparkline, .keyLabel: Look()
        case .title, .name, .busy, .warning, .key: Look(isBold: true)
        case .label, .dim: Look(isDim: true)
        case .columnTitle, .pinned: Look(isReversed: true)
        case .sortedColumnTitle, .error: Look(isBold: true, isReversed: true)
        }
    }

    private static func eightColorLook(_ role: Style.Role) -> Look {
        switch role {
        case .plain: Look()
        case .title, .name: Look(isBold: true)
        case .label, .dim, .keyLabel: Look(isDim: true)
        case .columnTitle: Look(foreground: 0, background: 7)
        case .sortedColumnTitle, .pinned: Look(foreground: 0, background: 6)
        case .sent, .sparkline: Look(foreground: 6)
        case .received: Look(foreground: 2)
        case .busy, .warning: Look(foreground: 3, isBold: true)
        case .error: Look(foreground: 1, isBold: true)
        case .key: Look(foreground: 6, isBold: true)
        }
    }

    private static func manyColorLook(_ role: Style.Role) -> Look {
        switch role {
        case .plain: Look()
        case .title, .name: Look(isBold: true)
        case .label, .keyLabel: Look(foreground: 245)
        case .dim: Look(foreground: 243)
        case .columnTitle: Look(foreground: 255, background: 238)
        case .sortedColumnTitle: Look(foreground: 16, background: 74, isBold: true)
        case .pinned: Look(foreground: 16, background: 74)
        case .sent: Look(foreground: 74)
        case .received: Look(foreground: 71)
        case .sparkline: Look(foreground: 67)
        case .busy: Look(foreground: 208, isBold: true)
        case .warning: Look(foreground: 172, isBold: true)
        case .error: Look(foreground: 203, isBold: true)
        case .key: Look(foreground: 74, isBold: true)
        }
    }
}
