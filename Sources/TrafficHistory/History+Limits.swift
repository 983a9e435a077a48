public import TrafficModel

extension History {
    /// For `doctor`, docs/security.md and its test.
    public static var limits: [DoctorReport.Limit] {
        func limit(_ of: String, _ most: GroupPlaces.Limit, _ excess: String) -> DoctorReport.Limit {
            DoctorReport.Limit(
                of: of,
                user: most.ofUser,
                all: most.inAll,
                beyond: "\(excess) add up in the user's row `_other`"
            )
        }
        return [
            limit(
                "groups of processes in a minute of history",
                HistoryMinute.groupLimit,
                "those with the least payload"
            ),
            limit("groups of processes in a month of history", HistoryStore.groupLimit, "those that come later"),
        ]
    }
}
