import Foundation
import Testing
import TrafficAudit
import TrafficModel

@testable import TrafficExport

extension RandomSnapshot {
    mutating func audit() -> AuditReport {
        var report = AuditReport(
            takenAt: self.time(),
            countingSince: self.time(),
            method: self.pick(CaptureMethod.allCases),
            unexplained: self.count()
        )
        report.sections = self.list { random in
            AuditReport.Section(
                kind: random.pick(AuditReport.Section.Kind.allCases),
                name: random.text(),
                sent: random.list { $0.auditLine() },
                received: random.list { $0.auditLine() }
            )
        }
        report.disputes = self.list { random in
            AuditReport.Dispute(
                cookie: SocketCookie(rawValue: random.count()),
                name: random.text(),
                processes: random.list { ProcessIdentity(pid: 17, startBoottimeNanoseconds: $0.count()) },
                direction: random.pick([.sent, .received]),
                payload: random.count(),
                tcp: random.maybe { $0.count() },
                wirePayload: random.maybe { $0.count() },
                unexplained: Int64(bitPattern: random.count())
            )
        }
        return report
    }

    private mutating func auditLine() -> AuditReport.Line {
        AuditReport.Line(line: self.pick(AuditLine.allCases), bytes: Int64(bitPattern: self.count()))
    }
}

@Suite("The audit as JSON")
struct AuditTests {
    @Test("it decodes to what was encoded", arguments: 0..<100 as Range<UInt64>)
    func roundTrip(seed: UInt64) throws {
        var random = RandomSnapshot(seed: seed)
        let report = random.audit()
        let decoded = try JSONDecoder().decode(AuditReport.self, from: Data(report.json()))
        #expect(decoded == report)
    }

    @Test(
        "every audit that the encoder writes is valid, and the schema knows every line",
        .enabled(if: Python.missing == nil, "\(Python.missing ?? "")")
    )
    func schema() throws {
        var documents = (0..<100 as Range<UInt64>).map { seed in
            var random = RandomSnapshot(seed: seed)
            return random.audit().json()
        }
        var random = RandomSnapshot(seed: 1)
        var all = random.audit()
        all.sections = [
            .init(kind: .host, name: "h", sent: AuditLine.allCases.map { .init(line: $0, bytes: -1) }, received: [])
        ]
        documents.append(all.json())
        #expect(
            try SchemaTests().faults(documents, schema: AuditReport.jsonSchema) == Python.Result(status: 0, output: "")
        )
    }
}
