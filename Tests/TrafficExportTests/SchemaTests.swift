import Foundation
import Testing
import TrafficExport
import TrafficModel

@Suite("The JSON Schemas")
struct SchemaTests {
    /// Reads `{schema, documents}`; prints the first fault of each document that is not valid.
    static let validator = """
        import json, sys, jsonschema
        given = json.load(sys.stdin)
        jsonschema.Draft202012Validator.check_schema(given["schema"])
        validator = jsonschema.Draft202012Validator(given["schema"])
        for index, document in enumerate(given["documents"]):
            for error in validator.iter_errors(document):
                print(index, list(error.absolute_path), error.message[:200])
                break
        """

    func faults(_ documents: [[UInt8]], schema: [UInt8]) throws -> Python.Result {
        let list = documents.joined(separator: [UInt8(ascii: ",")])
        let input = Array(#"{"schema":"#.utf8) + schema + Array(#","documents":["#.utf8) + list + Array("]}".utf8)
        return try Python.run(Self.validator, input: input)
    }

    @Test(
        "Every snapshot that the encoder writes is valid",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func snapshots() throws {
        let documents = (0..<200 as Range<UInt64>).map { seed in
            var random = RandomSnapshot(seed: seed)
            return random.snapshot().json()
        }
        #expect(try self.faults(documents, schema: Snapshot.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every report that the encoder writes is valid",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func reports() throws {
        let documents = (0..<100 as Range<UInt64>).map { seed in
            var random = RandomSnapshot(seed: seed)
            return random.report().json()
        }
        #expect(try self.faults(documents, schema: DoctorReport.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every list of exchanges that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func exchanges() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            var snapshot = random.snapshot()
            snapshot.exchanges = random.list { $0.exchange() }
            let report = ExchangeReport(snapshot)
            let json = report.json()
            #expect(try JSONDecoder().decode(ExchangeReport.self, from: Data(json)).json() == json)
            #expect(report.ndjson().count { $0 == UInt8(ascii: "\n") } == report.exchanges.count)
            documents.append(json)
        }
        #expect(try self.faults(documents, schema: ExchangeReport.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "The schema refuses what is not in the interface",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")"),
        arguments: [
            (#""schema_version":1"#, #""schema_version":2"#), (#""processes":["#, #""extra":1,"processes":["#),
            (#""pid":17"#, #""pid":-1"#), (#""rung":"#, #""Rung":"#), (#""ring_full":"#, #""ring_full":0.5,"x":"#),
            (#""taken_at":""#, #""taken_at":" "#), (#""totals":{"#, #""totals":{"y":1,"#),
        ]
    )
    func strict(original: String, fault: String) throws {
        var random = RandomSnapshot(seed: 1)
        var snapshot = random.snapshot()
        snapshot.processes = [random.process()]
        let json = String(decoding: snapshot.json(), as: UTF8.self)
        #expect(json.contains(original))
        let document = Array(json.replacingOccurrences(of: original, with: fault).utf8)
        let result = try self.faults([document], schema: Snapshot.jsonSchema)
        #expect(result.status == 0)
        #expect(result.output.hasPrefix("0 "))
    }

    @Test("Every object in the schemas is closed and says what it requires")
    func closed() throws {
        for (schema, count) in [
            (Snapshot.jsonSchema, 26), (DoctorReport.jsonSchema, 9), (AuditReport.jsonSchema, 5),
            (ExchangeReport.jsonSchema, 4),
        ] {
            var objects = 0
            func visit(_ value: Any) {
                if let list = value as? [Any] { list.forEach(visit) }
                guard let object = value as? [String: Any] else { return }
                if object["type"] as? String == "object" {
                    objects += 1
                    #expect(object["additionalProperties"] as? Bool == false)
                    #expect(object["required"] is [String])
                }
                object.values.forEach(visit)
            }
            visit(try JSONSerialization.jsonObject(with: Data(schema)))
            #expect(objects == count)
        }
    }
}
