/// One metric: all its points have this name, unit, kind and help.
package struct MetricFamily: Sendable, Hashable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram, info

        /// Its points add up since a time.
        package var isCumulative: Bool { self == .counter || self == .histogram }
    }

    /// With the words that Prometheus puts at the end of a name, and the codes that OpenTelemetry has (UCUM).
    package enum Unit: String, Sendable {
        case bytes = "By"
        case seconds = "s"
        case ratio = "1"
        case packets = "{packet}"

        /// `nil`: Prometheus has no word for what is only counted.
        fileprivate var word: String? {
            switch self {
            case .bytes: "bytes"
            case .seconds: "seconds"
            case .ratio: "ratio"
            case .packets: nil
            }
        }
    }

    /// As OpenTelemetry writes it: `process.network.io`.
    package let name: String
    package let unit: Unit?
    package let kind: Kind
    package let help: String

    init(_ kind: Kind, _ name: String, _ unit: Unit?, _ help: String) {
        (self.kind, self.name, self.unit, self.help) = (kind, name, unit, help)
    }

    static func counter(_ name: String, in unit: Unit? = nil, _ help: String) -> MetricFamily {
        MetricFamily(.counter, name, unit, help)
    }

    static func gauge(_ name: String, in unit: Unit? = nil, _ help: String) -> MetricFamily {
        MetricFamily(.gauge, name, unit, help)
    }

    static func histogram(_ name: String, in unit: Unit? = nil, _ help: String) -> MetricFamily {
        MetricFamily(.histogram, name, unit, help)
    }

    static func info(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(.info, name, nil, help)
    }

    /// As Prometheus writes it, without the suffix of the kind: `process_network_io_bytes`. The same that a collector of
    /// OpenTelemetry makes of ``name`` and ``unit``.
    var prometheusName: String {
        let name = self.name.replacing(".", with: "_")
        return self.unit?.word.map { "\(name)_\($0)" } ?? name
    }

    /// OpenMetrics asks for it to agree with the end of the name.
    var prometheusUnit: String? { self.unit?.word }
}
