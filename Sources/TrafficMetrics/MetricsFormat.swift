/// The two text formats that Prometheus and its relatives read.
public enum MetricsFormat: Sendable, Hashable, CaseIterable {
    /// OpenMetrics 1.0.
    case openMetrics
    /// The format of Prometheus before OpenMetrics, version 0.0.4.
    case text

    public var mediaType: String {
        switch self {
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        case .text: "text/plain; version=0.0.4; charset=utf-8"
        }
    }

    /// What a client prefers (RFC 9110 section 12.5.1). A client that names neither format gets ``text``, which a person
    /// can read in a browser.
    ///
    /// - Parameter accept: The header `Accept`; `nil` without one.
    public init(accepting accept: String?) {
        var (openMetrics, text) = (0.0, 0.0)
        for range in (accept ?? "").split(separator: ",") {
            let parts = range.split(separator: ";").map { $0.filter { !$0.isWhitespace }.lowercased() }
            let quality = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            switch parts.first {
            case "application/openmetrics-text": openMetrics = max(openMetrics, quality)
            case "text/plain": text = max(text, quality)
            default: break
            }
        }
        self = openMetrics > 0 && openMetrics >= text ? .openMetrics : .text
    }
}
