import TrafficModel

/// Totals by scope (how far the bytes went) in one line and, where there are classes, totals by class in another.
extension TopState {
    private static let leastWidthForSums = 40

    private struct Sum {
        var name: String
        var payload: PayloadBytes
    }

    /// Sums appear only where most of the screen is left for the list. The capture page shows them on any screen.
    var sumsHeight: Int {
        guard self.size.width >= Self.leastWidthForSums else { return 0 }
        let wanted = (self.scopeSums.isEmpty ? 0 : 1) + (self.classSums.isEmpty ? 0 : 1)
        return self.size.height >= 22 ? wanted : self.size.height >= 20 ? min(1, wanted) : 0
    }

    /// As many rows as ``sumsHeight`` says. Where only one row fits, the classes stay, because a person configured
    /// them.
    var sumsRows: [Frame.Row] {
        var rows: [Frame.Row] = []
        if !self.scopeSums.isEmpty { rows.append(self.row(of: self.scopeSums, label: nil)) }
        if !self.classSums.isEmpty { rows.append(self.row(of: self.classSums, label: "class ")) }
        return rows.suffix(self.sumsHeight)
    }

    /// The farthest scope comes first. A scope with 0 bytes is left out.
    private var scopeSums: [Sum] {
        let sums = self.timeline.snapshot?.totals.byScope ?? [:]
        return SocketScope.farthestFirst.compactMap { scope in
            guard let payload = sums[scope.rawValue]?.payloadSoFar, payload.total > 0 else { return nil }
            return Sum(name: scope.rawValue, payload: payload)
        }
    }

    /// Ordered by name, so that each class keeps its place. A class with 0 bytes stays: for costly traffic, 0 is good
    /// news.
    private var classSums: [Sum] {
        (self.timeline.snapshot?.totals.byClass ?? [:]).sorted { $0.key < $1.key }
            .map { Sum(name: self.typeface.printable($0.key, limit: 64), payload: $0.value.payloadSoFar) }
    }

    /// Shows both directions of as many sums as possible, while all sums fit. Otherwise shows the sums that fit.
    private func row(of sums: [Sum], label: String?) -> Frame.Row {
        var line = self.line()
        for detailed in (0...sums.count).reversed() {
            line = self.line()
            line.add(" ")
            if let label { line.add(label, .dim) }
            var shown = 0
            for (index, sum) in sums.enumerated() {
                let separator = index == 0 ? "" : " \(self.typeface.bar) "
                let pieces = self.pieces(of: sum, withDirections: index < detailed)
                guard line.addWhole([(separator, .dim)] + pieces) else { break }
                shown += 1
            }
            if shown == sums.count { break }
            if detailed == 0 { line.addWhole([(" +\(sums.count - shown) (c)", .label)]) }
        }
        return line.row()
    }

    private func pieces(of sum: Sum, withDirections: Bool) -> [(String, Style.Role)] {
        guard withDirections else {
            return [(sum.name + " ", .label), (self.units.text(sum.payload.total), .plain)]
        }
        return [
            (sum.name, .label), (" \(self.typeface.up)", .sent), (self.units.text(sum.payload.sent), .plain),
            (" \(self.typeface.down)", .received), (self.units.text(sum.payload.received), .plain),
        ]
    }
}
