import Testing
import TrafficMetrics

@Suite("The format that a scraper asks for")
struct FormatTests {
    @Test(
        "the client's preference decides, and without one it is the text that a person can read",
        arguments: [
            (nil, .text), ("", .text), ("*/*", .text), ("text/html, */*;q=0.8", .text), ("text/plain", .text),
            ("application/openmetrics-text", .openMetrics),
            ("application/openmetrics-text; version=1.0.0", .openMetrics),
            // Prometheus 2.42, and the same the other way round.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                    + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", .openMetrics
            ),
            ("application/openmetrics-text;q=0.4, text/plain; q=0.5", .text),
            ("Application/OpenMetrics-Text;Q=0.4,text/plain;q=0.3", .openMetrics),
            ("application/openmetrics-text;q=0", .text), ("application/openmetrics-text;q=x", .text),
        ] as [(String?, MetricsFormat)]
    )
    func accept(_ header: String?, _ format: MetricsFormat) {
        #expect(MetricsFormat(accepting: header) == format)
    }
}
