import TrafficDocuments
import TrafficModel

extension DoctorView {
    func rows(of cost: CaptureCost) -> [Frame.Row] {
        guard !cost.programs.isEmpty else {
            return [Frame.Row()]
                + self.rows(
                    "cost",
                    "none in the kernel: this method has no programs there. What it costs is the daemon's own processor time (top, ps)."
                )
        }
        let share = Units.fixed(cost.cpuPercent, decimals: 2)
        let seconds = TimeText.seconds(cost.seconds)
        var rows = [Frame.Row()]
        rows += self.rows("cost", "\(share) % of one processor, in the kernel, measured for \(seconds) s", .title)
        rows += Table.cost(cost).frame(width: self.width, typeface: self.typeface, units: .bytes).rows
        rows.append(Frame.Row())
        for (index, note) in Self.notes(on: cost).enumerated() { rows += self.rows(index == 0 ? "note" : "", note) }
        return rows
    }

    private static func notes(on cost: CaptureCost) -> [String] {
        var notes: [String] = []
        if let empty = cost.emptyProgramNanoseconds.map({ Units.fixed($0, decimals: 0) }) {
            notes.append("A program that does nothing shows \(empty) ns here: so much of NS/CALL is the measuring.")
        }
        if cost.statisticsWereOn == true {
            notes.append(
                "The kernel's BPF statistics were on before (sysctl kernel.bpf_stats_enabled, bpftop or the like) and stay on."
            )
        } else if let added = cost.statisticsNanoseconds.map({ Units.fixed($0, decimals: 0) }) {
            notes.append("Measuring made each call \(added) ns longer; it is over.")
        }
        if cost.programs.contains(where: { $0.hook.hasPrefix("iter/") }) {
            notes.append("iter/: run by the daemon; a call is a socket or an open file that it came by.")
        }
        return notes
    }
}

extension Table {
    /// A row per program, and a row with their sums.
    static func cost(_ cost: CaptureCost) -> Table {
        let total = cost.programs.reduce(into: (calls: 0.0, perSecond: 0.0, missed: 0.0)) { total, program in
            total.calls += Double(program.calls)
            total.perSecond += program.callsPerSecond
            total.missed += Double(program.missed)
        }
        return Table(
            columns: [
                Column("PROGRAM", cutTo: 8), Column("HOOK", cutTo: 8, rank: 0),
                Column("CALLS", rank: 2), Column("CALLS/s", rank: 3),
                Column("NS/CALL", rank: 4), Column("CPU %"),
                Column("MISSED", rank: 1),
            ],
            rows: cost.programs.map { program in
                [
                    .text(program.name), .text(program.hook), .number(Double(program.calls), places: 0),
                    .number(program.callsPerSecond, places: 0),
                    program.nanosecondsPerCall.map { .number($0, places: 0) } ?? .none,
                    .number(program.cpuPercent, places: 2), .number(Double(program.missed), places: 0),
                ]
            } + [
                [
                    .text("total"), .none, .number(total.calls, places: 0), .number(total.perSecond, places: 0), .none,
                    .number(cost.cpuPercent, places: 2), .number(total.missed, places: 0),
                ]
            ]
        )
    }
}
