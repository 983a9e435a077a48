/// Reads a mouse report of xterm's SGR protocol (private mode 1006, "Extended coordinates" in xterm's ctlseqs), one
/// character after the other. A report is `button;column;line`, then `M` for a press or `m` for a release. This reader
/// begins after the sequence's first three characters, `ESC [ <`.
///
/// ncurses reads such reports too, but version 6.4 writes past its buffer if a report has more than nine numbers, and
/// waits for the rest of an unfinished report. Whoever owns the terminal may write to it what they like.
public struct MouseReport: Sendable {
    public enum Outcome: Sendable, Hashable {
        case unfinished
        /// `nil` if the report means nothing here, or is no report.
        case finished(Key?)
    }

    private var numbers = [0]
    private var length = 0
    /// Three numbers of four digits, with what separates them.
    private static let longest = 15

    public init() {}

    public mutating func take(_ character: Unicode.Scalar) -> Outcome {
        self.length += 1
        guard self.length <= Self.longest else { return .finished(nil) }
        switch character {
        case "0"..."9":
            let digit = Int(character.value - 48)
            self.numbers[self.numbers.count - 1] = self.numbers[self.numbers.count - 1] * 10 + digit
        case ";": self.numbers.append(0)
        case "M": return .finished(self.key)
        default: return .finished(nil)
        }
        return .unfinished
    }

    /// Shift, Meta and Control.
    private static let modifiers = 4 | 8 | 16

    private var key: Key? {
        guard self.numbers.count == 3, self.numbers[1] > 0, self.numbers[2] > 0 else { return nil }
        return switch self.numbers[0] & ~Self.modifiers {
        case 0: .click(row: self.numbers[2] - 1, column: self.numbers[1] - 1)
        case 64: .wheelUp
        case 65: .wheelDown
        default: nil
        }
    }
}
