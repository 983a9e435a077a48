/// What the terminal can show and how wide that is. All text from other programs must pass through this type.
///
/// The user who runs a process chooses its name, its command line and its unit. No such text reaches a terminal before
/// ``printable(_:limit:)`` made it harmless: a control character would command the terminal, a bidirectional override
/// would reorder the row, and a character of unknown width would shift the columns.
public struct Typeface: Sendable {
    /// Whether anything but ASCII may be written.
    public let isUnicode: Bool
    private let scalarColumns: @Sendable (Unicode.Scalar) -> Int

    /// Letters, digits and drawings in ASCII alone.
    public static let ascii = Typeface(isUnicode: false) { _ in 1 }

    /// - Parameter columns: Cells that a scalar takes on the terminal: 0 for a mark that combines with the letter
    ///   before, 2 for a wide letter, negative for an unprintable scalar. Pass `wcwidth(3)`: the screen library counts
    ///   with that function, and with two different tables columns would shift.
    public static func unicode(columns: @escaping @Sendable (Unicode.Scalar) -> Int) -> Typeface {
        Typeface(isUnicode: true, columns: columns)
    }

    private init(isUnicode: Bool, columns: @escaping @Sendable (Unicode.Scalar) -> Int) {
        self.isUnicode = isUnicode
        self.scalarColumns = columns
    }

    /// The most marks on one letter that are shown. More marks would be drawn over other rows.
    private static let mostMarksOnOneLetter = 2

    /// `text` with everything that is not a plain visible character spelled out: `\n`, `\x1b`, `\u{202e}`.
    ///
    /// In ASCII, other letters become `?`. Text that is already harmless comes back unchanged. A backslash stays as it
    /// is, so the result is for people and not for parsers.
    ///
    /// - Parameter limit: Stop after this many columns, because a command line may be megabytes long.
    public func printable(_ text: String, limit: Int = .max) -> String {
        if text.utf8.count <= limit, text.utf8.allSatisfy({ 0x20...0x7e ~= $0 }) { return text }
        var result = ""
        var columns = 0
        var marks = Self.mostMarksOnOneLetter
        for scalar in text.unicodeScalars {
            guard columns < limit else { break }
            switch self.reading(of: scalar) {
            case .letter(let width):
                result.unicodeScalars.append(scalar)
                columns += width
                marks = 0
            case .mark where marks < Self.mostMarksOnOneLetter:
                result.unicodeScalars.append(scalar)
                marks += 1
            case .unknown:
                result += "?"
                columns += 1
            case .mark, .harmful:
                let spelled = Self.spelled(scalar)
                result += spelled
                columns += spelled.utf8.count
                marks = Self.mostMarksOnOneLetter
            }
        }
        return result
    }

    /// A bar of at most `columns`. What is more than nothing is seen.
    func bar(_ share: Double, columns: Int) -> String {
        let length = (share * Double(columns)).rounded(.up)
        return String(repeating: self.isUnicode ? "█" : "#", count: max(0, min(columns, Int(length))))
    }

    private enum Reading {
        case letter(width: Int)
        case mark
        /// A letter that this typeface does not have.
        case unknown
        case harmful
    }

    private func reading(of scalar: Unicode.Scalar) -> Reading {
        if scalar.isASCII { return 0x20...0x7e ~= scalar.value ? .letter(width: 1) : .harmful }
        let properties = scalar.properties
        // Default-ignorable scalars show nothing or act on their neighbours: zero-width characters, joiners,
        // bidirectional overrides and isolates, variation selectors, tags. A skin tone changes the width of the emoji
        // before it on some terminals and not on others.
        if properties.isDefaultIgnorableCodePoint || properties.isEmojiModifier { return .harmful }
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned:
            return .harmful
        default:
            break
        }
        guard self.isUnicode else { return .unknown }
        let width = self.scalarColumns(scalar)
        return width < 0 ? .harmful : width == 0 ? .mark : .letter(width: width)
    }

    private static func spelled(_ scalar: Unicode.Scalar) -> String {
        switch scalar {
        case "\n": return "\\n"
        case "\r": return "\\r"
        case "\t": return "\\t"
        default:
            let digits = String(scalar.value, radix: 16)
            guard scalar.value < 0x100 else { return "\\u{\(digits)}" }
            return "\\x\(digits.count < 2 ? "0" : "")\(digits)"
        }
    }

    /// Cells that `text`, which must be ``printable(_:limit:)``, takes.
    public func columns(of text: String) -> Int {
        if !self.isUnicode || text.utf8.allSatisfy({ $0 < 0x80 }) { return text.unicodeScalars.count }
        return text.unicodeScalars.reduce(0) { $0 + self.columns(of: $1) }
    }

    private func columns(of scalar: Unicode.Scalar) -> Int {
        scalar.isASCII ? 1 : max(0, self.scalarColumns(scalar))
    }

    /// `text`, which must be ``printable(_:limit:)``, in at most `width` cells. `…` or `~` at the end shows a cut.
    public func truncated(_ text: String, to width: Int) -> String {
        guard width > 0 else { return "" }
        if text.utf8.count <= width || self.columns(of: text) <= width { return text }
        var result = ""
        var room = width - 1
        for scalar in text.unicodeScalars {
            room -= self.columns(of: scalar)
            if room < 0 { break }
            result.unicodeScalars.append(scalar)
        }
        return result + self.ellipsis
    }

    public enum Alignment: Sendable {
        case left, right
    }

    /// `text`, which must be ``printable(_:limit:)``, in exactly `width` cells.
    public func fitted(_ text: String, to width: Int, _ alignment: Alignment = .left) -> String {
        let text = self.truncated(text, to: width)
        let padding = String(repeating: " ", count: max(0, width - self.columns(of: text)))
        return alignment == .left ? text + padding : padding + text
    }
}

/// Drawings, each with a replacement in ASCII.
extension Typeface {
    public var ellipsis: String { self.isUnicode ? "…" : "~" }
    var up: String { self.isUnicode ? "▲" : "^" }
    var down: String { self.isUnicode ? "▼" : "v" }
    var collapsed: String { self.isUnicode ? "▸" : "+" }
    var expanded: String { self.isUnicode ? "▾" : "-" }
    var branch: String { self.isUnicode ? "├" : "|" }
    var lastBranch: String { self.isUnicode ? "└" : "`" }
    var pinned: String { self.isUnicode ? "◆" : "*" }
    var separator: String { self.isUnicode ? "·" : "-" }
    var bar: String { self.isUnicode ? "│" : "|" }
    var rule: String { self.isUnicode ? "─" : "-" }
    var outgoing: String { self.isUnicode ? "→" : "->" }
    var incoming: String { self.isUnicode ? "←" : "<-" }
    var both: String { self.isUnicode ? "↔" : "<>" }
    /// The steps from no traffic to the most traffic.
    var ramp: [Character] { self.isUnicode ? Array("▁▂▃▄▅▆▇█") : Array("_.-:=+*#") }
}
