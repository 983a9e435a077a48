/// How many names monitoring systems get of one kind. A name has several series.
///
/// OpenTelemetry's default is 2,000 sets of attributes for a metric. A process and an endpoint have two in most metrics,
/// one for each direction.
package enum SeriesLimits {
    package static let processes = 1_000
    package static let endpoints = 1_000
    /// Of the endpoints of one program: strangers choose the paths that a server without routes reports.
    package static let endpointsOfProcess = 200
    package static let interfaces = 1_000
    /// Users that have an overflow of their own.
    package static let users = 200
    /// Of a label's value, in bytes.
    package static let longestLabel = 256

    /// For `doctor`, docs/security.md and its test.
    package static let table: [StatedLimit] = [
        StatedLimit(
            of: "programs with series of their own in /metrics",
            all: Self.processes,
            beyond: Self.beyond
        ),
        StatedLimit(
            of: "endpoints with series of their own in /metrics; of one program at most \(Self.endpointsOfProcess)",
            all: Self.endpoints,
            beyond: Self.beyond
        ),
        StatedLimit(
            of: "interfaces with series of their own in /metrics",
            all: Self.interfaces,
            beyond: "the rest adds up in a series with `otel_metric_overflow=\"true\"`"
        ),
        StatedLimit(
            of: "users with such a series of their own",
            all: Self.users,
            beyond: "further users, and all ids from 65,536 on, share one"
        ),
    ]

    private static let beyond = """
        a user may hold as many as are still free, and all ids from 65,536 on count as one user; the rest adds up in the \
        user's series with `otel_metric_overflow="true"`
        """
}
