import TrafficCapture
import TrafficModel

/// What was looked at when the daemon started, for `trafficctl doctor`.
struct Doctor: Sendable {
    private let found: [DoctorReport.Check]

    init(selection: RungSelection) {
        self.found = [Doctor.rung(selection)] + HostProbe.all().map(Doctor.check)
    }

    /// The findings of the start and what is known of losses now.
    func checks(loss: CaptureLoss) -> [DoctorReport.Check] {
        self.found + [Doctor.losses(loss)]
    }

    private static func rung(_ selection: RungSelection) -> DoctorReport.Check {
        let status = selection.source.status
        let refused = selection.refusals.map { "\($0.rung.rawValue) refused: \($0.reason)" }
        return DoctorReport.Check(
            name: "capture rung",
            status: status.rung == .poll ? .degraded : .ok,
            detail: ([status.rung.rawValue] + refused).joined(separator: "; "),
            remedy: status.rung == .poll
                ? "a kernel of 6.1 or later with BTF (CONFIG_DEBUG_INFO_BTF) and root rights counts every byte" : nil
        )
    }

    private static func check(_ probe: HostProbe) -> DoctorReport.Check {
        DoctorReport.Check(
            name: probe.name,
            status: probe.isGood ? .ok : .degraded,
            detail: probe.finding,
            remedy: probe.isGood ? nil : probe.remedy
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
        return DoctorReport.Check(name: "losses", status: .ok, detail: "none\(late)\(inRows)")
    }
}
