import TrafficModel

extension PushStatus {
    /// For `trafficctl doctor`: how it goes at present.
    var check: DoctorReport.Check {
        let waits = self.waiting == 0 ? "" : self.waiting == 1 ? "; 1 request waits" : "; \(self.waiting) requests wait"
        let name = "push to \(self.destination)"
        if let problem {
            return DoctorReport.Check(
                name: name,
                status: .degraded,
                detail: "\(problem)\(waits)",
                remedy:
                    "see that this host reaches the receiver and that the receiver takes such metrics (docs/push.md);"
                    + " the daemon goes on trying"
            )
        }
        let last = self.lastDelivery.map { "the last request was taken at \($0)" } ?? "no request was sent yet"
        return DoctorReport.Check(name: name, status: .ok, detail: last + waits)
    }
}
