import Testing
import TrafficAudit
import TrafficModel

@testable import TrafficView

@Suite("The audit for people")
struct AuditViewTests {
    private static func report(isRight: Bool) throws -> AuditReport {
        let snapshot = try Fixture.snapshot()
        var report = AuditReport(takenAt: snapshot.takenAt, countingSince: snapshot.countingSince, method: .tracepoint)
        let rest: Int64 = isRight ? 0 : 1_234
        report.sections = [
            .init(
                kind: .host,
                name: "web-1",
                sent: [
                    .init(line: .payload, bytes: 12_345_678_901), .init(line: .waiting, bytes: -512),
                    .init(line: .again, bytes: 7_000), .init(line: .unexplained, bytes: rest),
                    .init(line: .wirePayload, bytes: 12_345_685_389 + rest), .init(line: .headers, bytes: 987_654),
                    .init(line: .wire, bytes: 12_346_673_043 + rest),
                ],
                received: [
                    .init(line: .payload, bytes: 1), .init(line: .urgent, bytes: 1),
                    .init(line: .unexplained, bytes: 0),
                    .init(line: .wirePayload, bytes: 2), .init(line: .acknowledgements, bytes: 52),
                    .init(line: .wire, bytes: 54),
                ]
            )
        ]
        guard !isRight else { return report }
        report.unexplained = 1_234
        report.disputes = [
            .init(
                cookie: SocketCookie(rawValue: 4_711),
                name: "tcp 192.0.2.1:443 198.51.100.7:40000",
                processes: [ProcessIdentity(pid: 815, startBoottimeNanoseconds: 1)],
                direction: .sent,
                payload: 8_766,
                tcp: 10_000,
                wirePayload: nil,
                unexplained: 1_234
            )
        ]
        report.disputedSockets = 3
        return report
    }

    @Test(
        "lines of both directions stand side by side above their sums",
        arguments: [(true, 80), (false, 80), (true, 120)]
    )
    func frames(isRight: Bool, width: Int) throws {
        let view = AuditView(typeface: Fixture.unicode, width: width)
        let frame = view.frame(of: try Self.report(isRight: isRight))
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "audit-\(isRight ? "right" : "wrong")-\(width)")
    }
}
