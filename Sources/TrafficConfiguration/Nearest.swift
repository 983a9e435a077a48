extension Collection<String> {
    /// The word that was probably meant: the one with the fewest wrong, missing, further or exchanged letters, if these
    /// are at most a third of it.
    func nearest(to text: String) -> String? {
        let text = Self.plain(text)
        // A distance takes time for the product of the lengths.
        guard text.count <= 64 else { return nil }
        return self.map { (word: $0, distance: Self.distance(text, Self.plain($0))) }
            .filter { $0.distance <= Swift.max(1, $0.word.count / 3) }
            .min { $0.distance < $1.distance }?.word
    }

    /// `Keep-Exited` is nearly `keep_exited`.
    private static func plain(_ text: String) -> [Character] {
        text.lowercased().map { $0 == "-" ? "_" : $0 }
    }

    /// Optimal string alignment, the edit distance with exchanges of neighbours.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var (before, last) = ([Int](), Array(0...right.count))
        for i in 0..<left.count {
            var row = [i + 1]
            for j in 0..<right.count {
                var least = Swift.min(last[j + 1] + 1, row[j] + 1, last[j] + (left[i] == right[j] ? 0 : 1))
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
                    least = Swift.min(least, before[j - 1] + 1)
                }
                row.append(least)
            }
            (before, last) = (last, row)
        }
        return last[right.count]
    }
}
