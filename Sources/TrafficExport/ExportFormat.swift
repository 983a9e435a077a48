public import TrafficAudit
public import TrafficDocuments
public import TrafficModel

/// The formats of a snapshot.
public enum ExportFormat: String, Sendable, CaseIterable {
    case json, ndjson, csv, tsv

    /// The IANA media type. NDJSON has no registered type; this is the type in common use.
    public var mediaType: String {
        switch self {
        case .json: "application/json"
        case .ndjson: "application/x-ndjson"
        case .csv: "text/csv; charset=utf-8; header=present"
        case .tsv: "text/tab-separated-values; charset=utf-8"
        }
    }
}

extension Snapshot {
    /// The complete document in `format`. The last line is ended.
    ///
    /// - Parameter table: The list that CSV and TSV contain. The other formats contain all lists.
    public func encoded(as format: ExportFormat, table: Table) -> [UInt8] {
        switch format {
        case .json: self.json() + [UInt8(ascii: "\n")]
        case .ndjson: self.ndjson()
        case .csv: self.csv(table)
        case .tsv: self.tsv(table)
        }
    }

    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.Snapshot_schema_json }
}

/// A document that has the same rows in each format.
package protocol ListDocument {
    func json() -> [UInt8]
    func ndjson() -> [UInt8]
    func delimited(_ dialect: DelimitedWriter.Dialect) -> [UInt8]
}

extension ListDocument {
    /// The complete document in `format`. The last line is ended.
    package func encoded(as format: ExportFormat) -> [UInt8] {
        switch format {
        case .json: self.json() + [UInt8(ascii: "\n")]
        case .ndjson: self.ndjson()
        case .csv: self.csv()
        case .tsv: self.tsv()
        }
    }

    package func csv() -> [UInt8] { self.delimited(.csv) }

    package func tsv() -> [UInt8] { self.delimited(.tsv) }
}

extension ExchangeReport: ListDocument {}

extension HistoryReport: ListDocument {
    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.HistoryReport_schema_json }
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
