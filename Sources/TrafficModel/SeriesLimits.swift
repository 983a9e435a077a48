/// How many series monitoring systems get of one kind.
///
/// OpenTelemetry's default is 2,000 sets of attributes for a metric. A process and an endpoint have two in most metrics,
/// one for each direction.
package enum SeriesLimits {
    package static let processes = 1_000
    package static let endpoints = 1_000
    package static let interfaces = 1_000
    /// Users that have an overflow of their own.
    package static let users = 200

    /// For `doctor`, docs/security.md and its test.
    package static let table: [DoctorReport.Limit] = [
        DoctorReport.Limit(
            of: "processes with series of their own in /metrics",
            all: Self.processes,
            beyond: Self.beyond
        ),
        DoctorReport.Limit(
            of: "endpoints with series of their own in /metrics",
            all: Self.endpoints,
            beyond: Self.beyond
        ),
    ]

    private static let beyond = """
        a user may have as many as are left after that; the rest adds up in the user's series with \
        `otel_metric_overflow="true"`
        """
}
