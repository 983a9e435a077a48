extension Typeface {
    /// Breaks `text`, which must be printable, at blanks into lines of at most `width` cells. A word that is wider than
    /// a line is broken where the line ends.
    func wrapped(_ text: String, to width: Int) -> [String] {
        var lines: [String] = [""]
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            var rest = String(word)
            if let last = lines.last, !last.isEmpty, self.columns(of: last) + 1 + self.columns(of: rest) > width {
                lines.append("")
            }
            while self.columns(of: rest) > width {
                let head = self.head(of: rest, width: width)
                guard !head.isEmpty else { break }
                rest.unicodeScalars.removeFirst(head.unicodeScalars.count)
                lines[lines.count - 1] = head
                lines.append("")
            }
            let last = lines[lines.count - 1]
            lines[lines.count - 1] = last.isEmpty ? rest : last + " " + rest
        }
        return lines
    }

    private func head(of text: String, width: Int) -> String {
        var head = ""
        var room = width
        for scalar in text.unicodeScalars {
            room -= self.columns(of: String(scalar))
            if room < 0 { break }
            head.unicodeScalars.append(scalar)
        }
        return head
    }
}
