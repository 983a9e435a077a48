import TrafficDocuments
import TrafficModel

extension PushStatus {
    /// For `trafficctl doctor`: how it goes at present.
    ///
    /// - Parameter tellsReason: The reason may have addresses that only an administrator should see.
    func check(tellsReason: Bool) -> DoctorReport.Check {
        var amounts = ""
        for (count, what) in [
            (self.waiting, "waiting"), (self.dropped, "deleted before the receiver took them"),
        ] where count > 0 {
            amounts += "; \(count) \(count == 1 ? "request" : "requests") \(what)"
        }
        if self.rejectedPoints > 0 { amounts += "; \(self.rejectedPoints) points left out so far" }
        let name = "push to \(self.destination)"
        if let problem {
            return DoctorReport.Check(
                name: name,
                status: .degraded,
                detail: (tellsReason ? problem : "the last request did not succeed as a whole") + amounts,
                remedy: "check that this host reaches the receiver, and that the receiver takes such metrics"
                    + " (docs/push.md); the daemon goes on sending"
            )
        }
        let last = self.lastDelivery.map { "the last request was taken at \($0)" } ?? "no request was sent yet"
        return DoctorReport.Check(name: name, status: .ok, detail: last + amounts)
    }
}
