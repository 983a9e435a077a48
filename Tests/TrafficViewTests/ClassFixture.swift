import TrafficModel

extension Fixture {
    /// All four scopes and three classes, one of them without traffic; the socket that `top` shows first is in one.
    static func snapshotWithClasses() throws -> Snapshot {
        var snapshot = try Self.snapshot(tick: 30, withSockets: true)
        snapshot.totals.byScope["loopback"] = ByteCounts(payload: PayloadBytes(sent: 61_500_000, received: 61_500_000))
        snapshot.totals.byClass = [
            "paid": ByteCounts(payload: PayloadBytes(sent: 122_000_000_000, received: 912_000_000)),
            "peering": ByteCounts(payload: PayloadBytes(sent: 3_000_000, received: 78_000_000)),
            "backup_2": ByteCounts(),
        ]
        snapshot.sockets?[0].addressClass = "peering"
        snapshot.sockets?[1].addressClass = "paid"
        return snapshot
    }
}
