import TrafficCapture
import TrafficDocuments
import TrafficModel

/// What the daemon checked at its start, for `trafficctl doctor`.
struct Doctor: Sendable {
    private let found: [DoctorReport.Check]

    init(selection: MethodSelection) {
        self.found = [Doctor.method(selection)] + HostProbe.all().map(Doctor.check)
    }

    /// The findings of the start and the losses that are known now.
    func checks(loss: CaptureLoss) -> [DoctorReport.Check] {
        self.found + [Doctor.losses(loss)]
    }

    private static func method(_ selection: MethodSelection) -> DoctorReport.Check {
        let status = selection.source.status
        let refused = selection.refusals.map { "\($0.method.rawValue) refused: \($0.reason)" }
        return DoctorReport.Check(
            name: "capture method",
            status: status.method == .poll ? .degraded : .ok,
            detail: ([status.method.rawValue] + refused).joined(separator: "; "),
            remedy: status.method == .poll ? MethodSelection.remedyForPolling : nil
        )
    }

    private static func check(_ probe: HostProbe) -> DoctorReport.Check {
        DoctorReport.Check(
            name: probe.name,
            status: probe.isGood ? .ok : .degraded,
            detail: probe.finding,
            // The daemon looks only at its start.
            remedy: probe.isGood ? nil : "\(probe.remedy); then start trafficd anew"
        )
    }

    private static func losses(_ loss: CaptureLoss) -> DoctorReport.Check {
        if loss.isLossy {
            let what = [
                ("no room in a kernel map", loss.mapFull), ("malformed records", loss.recordsMalformed),
                ("counters that fell", loss.countersBackwards),
                ("calls not seen because a program was preempted", loss.missedRuns),
            ].filter { $0.1 > 0 }.map { "\($0.0): \($0.1)" }
            return DoctorReport.Check(
                name: "losses",
                status: .failed,
                detail: what.joined(separator: ", "),
                remedy: "please report this with the output of `trafficctl doctor --format json`"
            )
        }
        let late = loss.ringFull > 0 ? "; \(loss.ringFull) records came late because the ring was full" : ""
        let folded = loss.socketsFolded +| loss.callsFolded
        let inRows = folded > 0 ? "; \(folded) sockets and calls are counted for their process or user alone" : ""
        let tenths = (loss.uncountedNanoseconds +| 99_999_999) / 100_000_000
        guard tenths == 0 else {
            return DoctorReport.Check(
                name: "losses",
                status: .degraded,
                detail:
                    "nothing is counted of \(tenths / 10).\(tenths % 10) s in which other counting programs took over\(late)\(inRows)",
                remedy: "the log says when and why; at the next boot all counts begin at 0"
            )
        }
        return DoctorReport.Check(name: "losses", status: .ok, detail: "none\(late)\(inRows)")
    }
}
