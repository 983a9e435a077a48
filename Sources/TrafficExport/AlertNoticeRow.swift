public import TrafficDocuments
import TrafficModel

extension AlertNotice {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.text(CodingKeys.id, self.position.description)
            writer.text(CodingKeys.host, self.host)
            writer.text(CodingKeys.origin, self.position.origin)
            writer.number(CodingKeys.number, self.position.number)
            writer.time(CodingKeys.at, self.at)
            writer.word(CodingKeys.change, self.change)
            writer.number(CodingKeys.droppedBefore, self.droppedBefore)
            if let alert { writer.nested(CodingKeys.alert, alert) }
        }
        return writer.bytes
    }

    /// JSON Schema (draft 2020-12) of ``json()``.
    public static var jsonSchema: [UInt8] { PackageResources.AlertNotice_schema_json }
}
