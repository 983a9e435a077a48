public import TrafficModel

/// The formats that a snapshot can be had in.
public enum ExportFormat: String, Sendable, CaseIterable {
    case json, ndjson, csv

    /// IANA media type; NDJSON has none of its own, this is the one in use.
    public var mediaType: String {
        switch self {
        case .json: "application/json"
        case .ndjson: "application/x-ndjson"
        case .csv: "text/csv; charset=utf-8; header=present"
        }
    }
}

extension Snapshot {
    /// The whole document in `format`, the last line ended.
    ///
    /// - Parameter table: Which list CSV has, the other formats have all.
    public func encoded(as format: ExportFormat, table: Table) -> [UInt8] {
        switch format {
        case .json: self.json() + [UInt8(ascii: "\n")]
        case .ndjson: self.ndjson()
        case .csv: self.csv(table)
        }
    }

    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.Snapshot_schema_json }
}

extension AuditReport {
    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.AuditReport_schema_json }
}

extension ExchangeReport {
    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.ExchangeReport_schema_json }
}

extension DoctorReport {
    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.DoctorReport_schema_json }
}
