/// One line of text being typed.
public struct LineEditor: Sendable, Hashable {
    public enum Edit: Sendable, Hashable {
        case insert(Character)
        case deleteBackward, deleteForward
        /// To the start of the word before the cursor.
        case deleteWord
        /// To the start of the line.
        case deleteToStart
        case left, right, start, end
    }

    public private(set) var characters: [Character]
    /// Characters before the cursor.
    public private(set) var cursor: Int

    public init(_ text: String = "") {
        self.characters = Array(text)
        self.cursor = self.characters.count
    }

    public var text: String { String(self.characters) }
    var beforeCursor: String { String(self.characters[..<self.cursor]) }

    public mutating func apply(_ edit: Edit) {
        switch edit {
        case .insert(let character):
            self.characters.insert(character, at: self.cursor)
            self.cursor += 1
        case .deleteBackward:
            guard self.cursor > 0 else { return }
            self.cursor -= 1
            self.characters.remove(at: self.cursor)
        case .deleteForward:
            guard self.cursor < self.characters.count else { return }
            self.characters.remove(at: self.cursor)
        case .deleteWord:
            var start = self.cursor
            while start > 0, self.characters[start - 1] == " " { start -= 1 }
            while start > 0, self.characters[start - 1] != " " { start -= 1 }
            self.characters.removeSubrange(start..<self.cursor)
            self.cursor = start
        case .deleteToStart:
            self.characters.removeSubrange(..<self.cursor)
            self.cursor = 0
        case .left: self.cursor = max(0, self.cursor - 1)
        case .right: self.cursor = min(self.characters.count, self.cursor + 1)
        case .start: self.cursor = 0
        case .end: self.cursor = self.characters.count
        }
    }
}
