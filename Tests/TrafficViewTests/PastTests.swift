import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficView

@Suite("A past minute in top")
struct PastTests {
    /// A full minute.
    private static let start = Timestamp(nanosecondsSinceEpoch: 1_790_000_040_000_000_000)

    private static func minute(_ number: Int64) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: self.start.nanosecondsSinceEpoch + number * 60_000_000_000)
    }

    /// The fourth minute before the present one, of a history that begins two minutes before it.
    private static func state(width: Int = 80, height: Int = 24, settings: TopSettings = TopSettings()) -> TopState {
        var state = TopState(
            size: .init(width: width, height: height),
            typeface: .ascii,
            address: "/run/x.sock",
            settings: settings,
            pastMinute: self.start
        )
        state.tick(now: Timestamp(nanosecondsSinceEpoch: self.minute(4).nanosecondsSinceEpoch + 5_000_000_000))
        return state
    }

    private static func answer(
        _ number: Int64 = 0,
        counted: UInt64 = 60,
        since first: Int64? = -2,
        rows: [HistoryRow] = PastTests.rows
    ) -> PastMinute {
        let report = HistoryReport(
            host: "vm",
            since: self.minute(number),
            until: self.minute(number + 1),
            level: .minute,
            by: [.process, .user, .unit, .container],
            countedSeconds: counted,
            keptSince: first.map(self.minute),
            rows: rows,
            totals: rows.reduce(ByteCounts()) { $0 + $1.bytes }
        )
        return PastMinute(
            report,
            start: self.minute(number),
            time: { "minute \(($0.nanosecondsSinceEpoch - self.start.nanosecondsSinceEpoch) / 60_000_000_000)" }
        )
    }

    private static func row(
        _ name: String,
        _ uid: UInt32?,
        _ unit: String?,
        _ sent: UInt64,
        _ received: UInt64
    ) -> HistoryRow {
        HistoryRow(
            time: self.start,
            name: HistoryName(process: name, uid: uid, systemdUnit: unit),
            user: uid == 33 ? "www-data" : nil,
            bytes: ByteCounts(payload: PayloadBytes(sent: sent, received: received))
        )
    }

    private static let rows = [
        Self.row("nginx", 33, "nginx.service", 60_000, 600), Self.row("php", 33, "nginx.service", 0, 6_000),
        Self.row("ssh", 1_000, nil, 120, 0), Self.row("e\u{1b}[2J", nil, nil, 0, 1),
    ]

    private static func text(_ state: TopState) -> [String] { state.frame().rows.map(\.text) }

    @Test("the list has bytes per second of the minute, and no column that history does not have")
    func list() {
        var state = Self.state()
        #expect(state.demand == .minute(Self.start))
        state.receive(Self.answer())
        let lines = Self.text(state)
        #expect(lines.count == 24 && lines[0].hasPrefix(" vm") && lines[0].contains("the minute from minute 0"))
        #expect(lines[0].contains("counted 60s") && lines[0].hasSuffix("4 rows "))
        #expect(lines[1].contains("1.00 kB/s") && lines[1].contains("60.1 kB") && lines[2].contains("110 B/s"))
        #expect(
            lines[3].split(separator: " ") == ["USER", "PROCESS", "UNIT", "SENT/sv", "RECV/sv", "SENT", "RECV"]
        )
        // 60,000 bytes in a minute are 1,000 a second.
        #expect(
            lines[4].split(separator: " ")
                == ["www-data", "nginx", "nginx.service", "1.00", "kB", "10", "B", "60.0", "kB", "600", "B"]
        )
        #expect(
            lines[5].contains("php") && lines[5].contains("100 B") && lines[6].contains("1000")
                && lines[6].contains("ssh")
        )
        #expect(lines[7].contains("e\\x1b[2J"))
        #expect(lines[23].contains("Left Right"))
    }

    @Test("a time without a count, a minute without bytes, an empty history and a filter each say so")
    func empty() {
        for (answer, filter, said) in [
            (Self.answer(counted: 0, rows: []), "", "history has nothing of this minute, or not yet"),
            (Self.answer(rows: []), "", "no process moved a byte in this minute"),
            (Self.answer(counted: 0, since: nil, rows: []), "", "history is empty"),
            (Self.answer(), "process:none", "nothing matches the filter"),
        ] {
            var state = Self.state()
            #expect(throws: Never.self) { try state.setFilter(filter) }
            state.receive(answer)
            #expect(Self.text(state).contains { $0.contains(said) }, "\(said)")
        }
    }

    @Test("bytes of a longer time than a minute are spread over it")
    func long() {
        var state = Self.state()
        state.receive(Self.answer(counted: 600))
        #expect(Self.text(state)[4].contains("100 B") && Self.text(state)[4].contains("60.0 kB"))
    }

    @Test("left and right go to another minute, and stop where history begins and where the present is")
    func move() {
        var state = Self.state()
        state.receive(Self.answer())
        state.press(.left)
        #expect(state.demand == .minute(Self.minute(-1)))
        // The old minute stays until the answer is there, and says so.
        #expect(Self.text(state)[0].contains("minute 0") && Self.text(state)[3].contains("reading history"))
        state.press(.left)
        state.receive(Self.answer(-1))
        #expect(Self.text(state)[0].contains("minute 0"))
        state.receive(Self.answer(-2))
        #expect(Self.text(state)[0].contains("minute -2") && !Self.text(state)[3].contains("reading"))
        state.press(.left)
        #expect(state.demand == .minute(Self.minute(-2)))
        #expect(Self.text(state)[3].contains("history has minutes from minute -2 on"))
        for _ in 0..<10 { state.press(.right) }
        #expect(state.demand == .minute(Self.minute(3)))
        state.receive(Self.answer(3))
        #expect(Self.text(state)[3].contains("no later minute is over"))
        // Time goes on.
        state.tick(now: Self.minute(5))
        state.press(.right)
        #expect(state.demand == .minute(Self.minute(4)))
        #expect(!Self.text(state)[3].contains("no later minute"))
    }

    @Test("a minute that was removed meanwhile leads to the first that there is")
    func removed() {
        var state = Self.state()
        state.receive(Self.answer(0, counted: 0, since: 2, rows: []))
        #expect(state.demand == .minute(Self.minute(2)))
        state.receive(Self.answer(2, since: 2))
        #expect(Self.text(state)[3].contains("history has minutes from minute 2 on"))
        #expect(Self.text(state)[0].contains("minute 2"))
    }

    @Test("rows add up by unit and user, and not by what history does not know")
    func groups() {
        var state = Self.state(settings: TopSettings(sort: .pid, group: .remote))
        #expect(state.grouping == .process && state.order.key == .rate)
        state.receive(Self.answer())
        state.press("g")
        #expect(state.grouping == .unit)
        var lines = Self.text(state)
        #expect(lines[4].contains("UNIT") && lines[5].contains("nginx.service") && lines[5].contains("1.00 kB"))
        #expect(lines[5].contains("110 B") && lines[6].contains("(no unit)"))
        state.press("g")
        #expect(state.grouping == .user)
        lines = Self.text(state)
        #expect(lines[5].contains("www-data") && lines[6].contains("1000") && lines[7].contains("(several users)"))
        state.press("g")
        #expect(state.grouping == .process)
        state.press("P", "C")
        #expect(state.order.key == .rate)
        state.press("D")
        #expect(state.selectedText.contains("php"))
    }

    @Test("a filter has the keys of history, and users by name")
    func filter() {
        var state = Self.state()
        state.receive(Self.answer())
        state.press("/")
        state.type("user:www-data rx>1k")
        #expect(state.rows.count == 1 && Self.text(state).contains { $0.contains("php") })
        state.press(.escape, "/")
        state.type("pid:1")
        #expect(state.filterError?.contains("a past minute does not know 'pid'") == true)
        // The filter before is in force again.
        state.press(.escape)
        #expect(state.filterError == nil && state.rows.count == 4)
    }

    @Test("no key crashes in the past, at any size, and none opens what is not there")
    func keys() {
        for (width, height) in [(80, 24), (20, 5), (1, 1), (200, 60)] {
            for before in [true, false] {
                var state = Self.state(width: width, height: height)
                if !before { state.receive(Self.answer()) }
                let keys = KeyBindings.list.flatMap(\.bindings).flatMap(\.keys)
                for key in keys + keys.reversed() {
                    state.press(key)
                    let frame = state.frame()
                    #expect(frame.rows.count == height)
                    if case .page(let page, _) = state.mode { #expect(page == .help) }
                    if case .filter = state.mode { state.press(.escape) }
                }
                #expect(!state.isPaused && !state.showsDetails)
            }
        }
    }
}
