/// One metric: all its series have this name, kind and help.
struct MetricFamily {
    enum Kind: String {
        case counter, gauge, histogram, info
    }

    /// Without the suffix of its kind, as in OpenMetrics: `process_network_io_bytes`.
    let name: String
    let kind: Kind
    /// The last part of the name, if that is a unit.
    let unit: String?
    let help: String

    static func counter(_ name: String, unit: String? = nil, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .counter, unit: unit, help: help)
    }

    static func gauge(_ name: String, unit: String? = nil, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .gauge, unit: unit, help: help)
    }

    static func info(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .info, unit: nil, help: help)
    }
}
