import Foundation
import Testing
import TrafficAudit
import TrafficDocuments
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

    /// - Parameter isStrict: Whether unnamed fields and words are refused. A reader must not refuse them.
    func faults(_ documents: [[UInt8]], schema: [UInt8], isStrict: Bool = true) throws -> Python.Result {
        let schema = isStrict ? try Self.strict(schema) : schema
        let list = documents.joined(separator: [UInt8(ascii: ",")])
        let input = Array(#"{"schema":"#.utf8) + schema + Array(#","documents":["#.utf8) + list + Array("]}".utf8)
        return try Python.run(Self.validator, input: input)
    }

    /// The schema has to describe all that the project writes: every field by name, and every word among the examples.
    static func strict(_ schema: [UInt8]) throws -> [UInt8] {
        func closed(_ value: Any) -> Any {
            if let list = value as? [Any] { return list.map(closed) }
            guard var object = value as? [String: Any] else { return value }
            object = object.mapValues(closed)
            if object["type"] as? String == "object" { object["additionalProperties"] = false }
            if let words = object["examples"] { object["enum"] = words }
            return object
        }
        let root = try JSONSerialization.jsonObject(with: Data(schema))
        return Array(try JSONSerialization.data(withJSONObject: closed(root)))
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
        "Every report of history that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func history() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            let report = random.history()
            let json = report.json()
            #expect(try JSONDecoder().decode(HistoryReport.self, from: Data(json)).json() == json)
            #expect(report.ndjson().count { $0 == UInt8(ascii: "\n") } == report.rows.count)
            let lines = report.tsv().split(separator: UInt8(ascii: "\n"))
            #expect(lines.count == report.rows.count + 1)
            #expect(lines.allSatisfy { $0.count { $0 == UInt8(ascii: "\t") } == 32 })
            documents.append(json)
        }
        #expect(try self.faults(documents, schema: HistoryReport.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every report of alerts that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func alerts() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            let report = random.alerts()
            let json = report.json()
            #expect(try JSONDecoder().decode(AlertReport.self, from: Data(json)).json() == json)
            #expect(report.ndjson().count { $0 == UInt8(ascii: "\n") } == report.alerts.count)
            let lines = report.tsv().split(separator: UInt8(ascii: "\n"))
            #expect(lines.count == report.alerts.count + 1)
            #expect(lines.allSatisfy { $0.count { $0 == UInt8(ascii: "\t") } == 23 })
            documents.append(json)
        }
        #expect(try self.faults(documents, schema: AlertReport.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every change of an alert that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func notices() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            for alert in random.alerts().alerts + [nil] {
                let notice = AlertNotice(
                    host: random.text(),
                    position: AlertPosition(origin: "0123456789abcdef", number: random.count()),
                    at: random.time(),
                    change: random.pick(AlertNotice.Change.allCases),
                    droppedBefore: random.count(),
                    alert: alert
                )
                let json = notice.json()
                #expect(try JSONDecoder().decode(AlertNotice.self, from: Data(json)).json() == json)
                documents.append(json)
            }
        }
        #expect(try self.faults(documents, schema: AlertNotice.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every report of a month that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func months() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            let report = random.month()
            let json = report.json()
            #expect(try JSONDecoder().decode(MonthReport.self, from: Data(json)).json() == json)
            #expect(report.ndjson().count { $0 == UInt8(ascii: "\n") } == 1)
            let lines = report.tsv().split(separator: UInt8(ascii: "\n"))
            #expect(lines.count == 2)
            #expect(lines.allSatisfy { $0.count { $0 == UInt8(ascii: "\t") } == 52 })
            documents.append(json)
        }
        #expect(try self.faults(documents, schema: MonthReport.jsonSchema) == Python.Result(status: 0, output: ""))
    }

    @Test(
        "Every list of exchanges that the encoder writes is valid, and decodes to itself",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func exchanges() throws {
        var documents: [[UInt8]] = []
        for seed in 0..<100 as Range<UInt64> {
            var random = RandomSnapshot(seed: seed)
            let snapshot = random.snapshot()
            let report = ExchangeReport(Reading(snapshot: snapshot, exchanges: random.list { $0.exchange() }))
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
            (#""pid":17"#, #""pid":-1"#), (#""method":"#, #""Method":"#), (#""ring_full":"#, #""ring_full":0.5,"x":"#),
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

    @Test(
        "A reader of version 1 takes fields and words that come later",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func open() throws {
        var random = RandomSnapshot(seed: 1)
        var snapshot = random.snapshot()
        snapshot.processes = [random.process()]
        snapshot.capture.method = .fexit
        let later = [
            (#""processes":["#, #""extra":1,"processes":["#), (#""pid":17"#, #""pid":17,"extra":{}"#),
            (#""method":"fexit""#, #""method":"teleport""#), (#""state":""#, #""state":"new_"#),
        ].reduce(String(decoding: snapshot.json(), as: UTF8.self)) { json, change in
            #expect(json.contains(change.0))
            return json.replacingOccurrences(of: change.0, with: change.1)
        }
        let result = try self.faults([Array(later.utf8)], schema: Snapshot.jsonSchema, isStrict: false)
        #expect(result == Python.Result(status: 0, output: ""))
    }

    @Test("Every object in the schemas is open and says what it requires; no list of words is closed")
    func objects() throws {
        for (schema, count) in [
            (Snapshot.jsonSchema, 27), (DoctorReport.jsonSchema, 10), (AuditReport.jsonSchema, 5),
            (ExchangeReport.jsonSchema, 4), (HistoryReport.jsonSchema, 3), (MonthReport.jsonSchema, 6),
        ] {
            var objects = 0
            func visit(_ value: Any) {
                if let list = value as? [Any] { list.forEach(visit) }
                guard let object = value as? [String: Any] else { return }
                if object["type"] as? String == "object" {
                    objects += 1
                    #expect(object["additionalProperties"] == nil)
                    #expect(object["required"] is [String])
                }
                #expect(object["enum"] == nil)
                object.values.forEach(visit)
            }
            visit(try JSONSerialization.jsonObject(with: Data(schema)))
            #expect(objects == count)
        }
    }

    @Test("Every document says its version, which is the schema's")
    func versions() throws {
        var random = RandomSnapshot(seed: 1)
        let documents = [
            (random.snapshot().json(), Snapshot.jsonSchema), (random.report().json(), DoctorReport.jsonSchema),
            (random.audit().json(), AuditReport.jsonSchema),
            (ExchangeReport(Reading(snapshot: random.snapshot())).json(), ExchangeReport.jsonSchema),
            (random.history().json(), HistoryReport.jsonSchema), (random.month().json(), MonthReport.jsonSchema),
        ]
        for (document, schema) in documents {
            let written = try JSONSerialization.jsonObject(with: Data(document)) as? [String: Any]
            #expect(written?["schema_version"] as? Int == 1)
            let described = try JSONSerialization.jsonObject(with: Data(schema)) as? [String: Any]
            let version = (described?["properties"] as? [String: Any])?["schema_version"] as? [String: Any]
            #expect(version?["const"] as? Int == 1)
            #expect((described?["required"] as? [String])?.contains("schema_version") == true)
        }
    }

    @Test("A process has an identity that a reader with 53-bit numbers can tell from any other")
    func identity() throws {
        // 2^53 ns are 104 days.
        var random = RandomSnapshot(seed: 1)
        let starts: [UInt64] = [9_007_199_254_740_993, 9_007_199_254_740_992]
        var snapshot = random.snapshot()
        snapshot.processes = starts.map { start in
            var process = random.process()
            process.identity = ProcessIdentity(pid: 17, startBoottimeNanoseconds: start)
            return process
        }
        let root = try JSONSerialization.jsonObject(with: Data(snapshot.json())) as? [String: Any]
        let names = (root?["processes"] as? [[String: Any]])?.map { $0["process_id"] as? String }
        #expect(names == ["17-9007199254740993", "17-9007199254740992"])
        // Everywhere a document names a process.
        let text = String(decoding: snapshot.json(), as: UTF8.self)
        let exchange = random.exchange()
        let report = ExchangeReport(Reading(snapshot: snapshot, exchanges: [exchange]))
        let exchanges = String(decoding: report.json(), as: UTF8.self)
        for document in [text, exchanges] {
            let (keys, names) = ("\"start_boottime_ns\":", "\"process_id\":\"")
            #expect(document.components(separatedBy: keys).count == document.components(separatedBy: names).count)
        }
    }

    @Test("An exchange names its socket as such, beside the bytes of HTTP cookies")
    func socketCookie() throws {
        var random = RandomSnapshot(seed: 1)
        let snapshot = random.snapshot()
        var exchange = random.exchange()
        exchange.cookie = SocketCookie(rawValue: 4711)
        let report = ExchangeReport(Reading(snapshot: snapshot, exchanges: [exchange]))
        let root = try JSONSerialization.jsonObject(with: Data(report.json())) as? [String: Any]
        let row = (root?["exchanges"] as? [[String: Any]])?.first
        #expect(row?["socket_cookie"] as? Int == 4711)
    }
}
