/// One metric: all its series have this name, kind and help.
struct MetricFamily {
    enum Kind: String {
        case counter, gauge, histogram, info
    }

    /// Without the suffix of its kind, as in OpenMetrics: `process_network_io_bytes`.
    let name: String
    let kind: Kind
    let help: String

    private static let units: Set = ["bytes", "ratio", "seconds"]

    /// The last part of the name, if that is a unit (OpenMetrics asks for both to agree).
    var unit: String? {
        let last = self.name.split(separator: "_").last.map(String.init)
        return last.flatMap { Self.units.contains($0) ? $0 : nil }
    }

    static func counter(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .counter, help: help)
    }

    static func gauge(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .gauge, help: help)
    }

    static func info(_ name: String, _ help: String) -> MetricFamily {
        MetricFamily(name: name, kind: .info, help: help)
    }
}
