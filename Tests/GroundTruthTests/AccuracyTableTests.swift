import Testing

@testable import GroundTruth

@Suite("the accuracy table")
struct AccuracyTableTests {
    private func row(
        _ scenario: String,
        _ status: AccuracyRow.Status = .exact,
        kernel: String = "6.1",
        method: String = "fexit",
        payload: UInt64? = 0,
        wire: UInt64? = nil,
        details: String = ""
    ) -> AccuracyRow {
        var row = AccuracyRow(kernel: kernel, method: method, status: status)
        row.scenario = scenario
        row.path = "veth"
        row.payloadBytes = payload == nil ? nil : 1000
        row.payloadDifference = payload
        row.wireBytes = payload == nil ? nil : 1200
        row.wireDifference = wire
        row.details = details
        return row
    }

    @Test("a row written as a line reads back, whatever its details contain")
    func roundTrip() throws {
        var row = self.row("tcp", .different, payload: 3, wire: 4, details: "one\ttwo\nthree")
        row.variant = "offloads on"
        row.seconds = 1.5
        let back = try #require(AccuracyRow(line: row.line))
        #expect(back.details == "one two | three")
        row.details = back.details
        #expect(back == row)
        let bare = AccuracyRow(kernel: "5.10", method: "fexit", status: .notOffered)
        #expect(AccuracyRow(line: bare.line) == bare)
    }

    @Test("the header and other lines are no rows", arguments: [AccuracyRow.headerLine, "", "a\tb", "x"])
    func noRows(line: String) {
        #expect(AccuracyRow(line: line) == nil)
    }

    @Test("unknown is a dash, refused and skipped cells give a reason, and a difference is bold and explained")
    func table() {
        var onLoopback = self.row("unix", wire: 0)
        onLoopback.path = "loopback"
        let table = AccuracyTable([
            self.row("tcp"),
            self.row("udp", .different, payload: 3, wire: 4, details: "lost 3"),
            self.row("mptcp", .skipped, payload: nil, details: "MPTCP: no such protocol"),
            self.row("sctp", .skipped, payload: nil, details: "MPTCP: no such protocol"),
            self.row("raw", .failed, payload: nil, details: "timed out"),
            onLoopback,
            self.row("-", .notOffered, kernel: "5.10", payload: nil, details: "no trampolines"),
            self.row("tcp", kernel: "6.18", method: "tracepoint", wire: 0),
        ])
        #expect(
            table.markdown == """
                Difference in bytes, payload / wire; `-`: not counted there.

                | scenario | 6.1<br>`fexit` | 5.10<br>`fexit` | 6.18<br>`tracepoint` |
                |---|---|---|---|
                | tcp | 0 / - | not offered by this kernel | 0 / 0 |
                | udp | **3 / 4**[^1] | not offered by this kernel | not run |
                | mptcp | skipped[^2] | not offered by this kernel | not run |
                | sctp | skipped[^2] | not offered by this kernel | not run |
                | raw | failed[^3] | not offered by this kernel | not run |
                | unix | 0 / 0[^4] | not offered by this kernel | not run |
                | bytes compared | 3000 / 2400 | - / - | 1000 / 1200 |

                [^1]: lost 3
                [^2]: MPTCP: no such protocol
                [^3]: timed out
                [^4]: on loopback, within one namespace

                """
        )
    }

    @Test("a daemon that ended with an error shows up despite the scenarios that passed before")
    func failedRun() {
        let table = AccuracyTable([self.row("tcp"), self.row("-", .failed, payload: nil, details: "exited with 1")])
        #expect(table.markdown.contains("| tcp | failed[^1] |"))
        #expect(table.markdown.contains("[^1]: exited with 1"))
    }

    @Test("a table with only refusals prints")
    func onlyRefusals() {
        let table = AccuracyTable([self.row("-", .notOffered, payload: nil)])
        #expect(table.markdown.contains("| none | not offered by this kernel |"))
    }
}
