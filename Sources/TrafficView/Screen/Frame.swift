/// One picture of the screen: text with meaning, not yet colours.
public struct Frame: Sendable, Hashable {
    public struct Row: Sendable, Hashable {
        public var spans: [Span]

        public init(_ spans: [Span] = []) {
            self.spans = spans
        }

        public var text: String { self.spans.map(\.text).joined() }
    }

    /// Printable text in one style.
    public struct Span: Sendable, Hashable {
        public var text: String
        public var style: Style

        public init(_ text: String, _ style: Style = Style()) {
            self.text = text
            self.style = style
        }
    }

    /// Where the text cursor blinks, in cells from the upper left.
    public struct Cursor: Sendable, Hashable {
        public var row: Int
        public var column: Int
    }

    public var rows: [Row]
    /// `nil` where nothing is being typed.
    public var cursor: Cursor?

    public init(rows: [Row], cursor: Cursor? = nil) {
        self.rows = rows
        self.cursor = cursor
    }

    /// The rows as lines, without styles and without blanks at their ends.
    public var plainText: String {
        self.rows.map { row in
            var text = row.text[...]
            while text.last == " " { text.removeLast() }
            return text + "\n"
        }.joined()
    }
}

/// What a piece of text means. The program that draws the frame chooses how that looks on its terminal.
public struct Style: Sendable, Hashable {
    public enum Role: Sendable, Hashable, CaseIterable {
        case plain
        /// The host's name and other headings.
        case title
        /// Text that explains the value beside it.
        case label
        case columnTitle
        case sortedColumnTitle
        case name
        case sent
        case received
        /// A rate that makes up much of the whole.
        case busy
        case sparkline
        case dim
        case warning
        case error
        /// A key in the list of keys, and what it does.
        case key
        case keyLabel
        case pinned
    }

    public var role: Role
    /// On the row under the cursor.
    public var isSelected: Bool

    public init(_ role: Role = .plain, isSelected: Bool = false) {
        self.role = role
        self.isSelected = isSelected
    }
}

/// Builds one row of at most `width` cells from left to right.
struct Line {
    let width: Int
    let typeface: Typeface
    private(set) var columns = 0
    private var spans: [Frame.Span] = []

    init(width: Int, typeface: Typeface) {
        self.width = width
        self.typeface = typeface
    }

    var room: Int { self.width - self.columns }

    /// Adds `text`, cut off where the line ends. `text` must be printable.
    mutating func add(_ text: String, _ role: Style.Role = .plain) {
        guard self.room > 0, !text.isEmpty else { return }
        let text = self.typeface.truncated(text, to: self.room)
        self.columns += self.typeface.columns(of: text)
        if let last = self.spans.indices.last, self.spans[last].style.role == role {
            self.spans[last].text += text
        } else {
            self.spans.append(Frame.Span(text, Style(role)))
        }
    }

    mutating func add(_ text: String, _ role: Style.Role = .plain, width: Int, _ alignment: Typeface.Alignment = .left)
    {
        self.add(self.typeface.fitted(text, to: width, alignment), role)
    }

    /// Adds all `pieces`, or none of them where there is not enough room.
    @discardableResult
    mutating func addWhole(_ pieces: [(String, Style.Role)]) -> Bool {
        let needed = pieces.reduce(0) { $0 + self.typeface.columns(of: $1.0) }
        guard needed <= self.room else { return false }
        for (text, role) in pieces { self.add(text, role) }
        return true
    }

    /// Adds blanks up to `column`, which itself stays free.
    mutating func pad(to column: Int, _ role: Style.Role = .plain) {
        self.add(String(repeating: " ", count: max(0, min(column, self.width) - self.columns)), role)
    }

    func row(selected: Bool = false) -> Frame.Row {
        guard selected else { return Frame.Row(self.spans) }
        var line = self
        line.pad(to: self.width)
        return Frame.Row(line.spans.map { Frame.Span($0.text, Style($0.style.role, isSelected: true)) })
    }
}
