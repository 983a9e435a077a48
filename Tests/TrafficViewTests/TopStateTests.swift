import Foundation
import TestSupport
import Testing
import TrafficModel
import TrafficQuery

@testable import TrafficView

@Suite("What top does with keys and snapshots")
struct TopStateTests {
    private func pids(_ state: TopState) -> [Int32] {
        state.rows.compactMap { if case .usage(let row) = $0.content { row.pid } else { nil } }
    }

    @Test("the cursor follows its process wherever the order puts the process")
    func cursorFollows() throws {
        var state = try Fixture.top()
        #expect(state.selectedText.contains("node"))
        state.press(.down)
        #expect(state.selectedText.contains("nginx"))
        var snapshot = try Fixture.snapshot(tick: 31)
        snapshot.processes?[0].rates = PayloadRates(sent: 0, received: 0)
        state.receive(snapshot)
        #expect(state.selectedText.contains("nginx"))
        #expect(state.cursor == 3)
    }

    @Test("untouched, the cursor stays at the top, and Home brings it back there")
    func cursorAtTop() throws {
        var state = try Fixture.top()
        var snapshot = try Fixture.snapshot(tick: 31)
        snapshot.processes?[1].rates = PayloadRates()
        state.receive(snapshot)
        #expect(state.selectedText.contains("nginx"))
        state.press(.end, .home)
        state.receive(try Fixture.snapshot(tick: 36))
        #expect(state.cursor == 0 && state.selected == nil)
    }

    @Test("when the row under the cursor goes, the cursor stays on its line")
    func rowGone() throws {
        var state = try Fixture.top()
        state.press(.down, .down)
        var snapshot = try Fixture.snapshot(tick: 31)
        snapshot.processes?.removeAll { $0.identity.pid == 2 }
        state.receive(snapshot)
        #expect(state.cursor == 2)
        snapshot.processes = []
        snapshot.exited = []
        state.receive(snapshot)
        #expect(state.cursor == 0 && state.selectedRow == nil)
        state.press(.enter, .left, "f", "d", "i", .escape, .down, .pageDown, .end)
        #expect(state.rows.isEmpty)
    }

    @Test("at the top the list stays there when the cursor's row sinks; further down it follows the row")
    func view() throws {
        var snapshot = try Fixture.snapshot()
        snapshot.processes = (1...50).map { pid in
            Fixture.process(pid, "p\(pid)", rates: PayloadRates(sent: Double(1000 - pid), received: 0))
        }
        var state = try Fixture.top(ticks: 0)
        state.receive(snapshot)
        state.press(.down)
        snapshot.processes?[1].rates = PayloadRates()
        state.receive(snapshot)
        #expect(state.scroll == 0 && state.cursor == 49)
        state.press(.up)
        #expect(state.scroll > 0 && state.selectedText.contains("p50"))
        snapshot.processes?[49].rates = PayloadRates(sent: 5000, received: 0)
        state.receive(snapshot)
        #expect(state.cursor == 0 && state.selectedText.contains("p50"))
    }

    @Test("a click selects a row, a second click opens it, and a click on a title sorts by that column")
    func clicks() throws {
        var state = try Fixture.top()
        let titles = try #require(state.frame().rows.firstIndex { $0.text.contains("PID") })
        let text = state.frame().rows[titles].text
        state.press(.click(row: titles + 3, column: 12))
        #expect(state.cursor == 2 && state.expanded.isEmpty)
        state.press(.click(row: titles + 3, column: 0))
        #expect(state.cursor == 2 && state.expanded.count == 1)
        for (title, key) in [("PID", SortKey.pid), ("SENT/s", .sentRate), ("PROCESS", .name)] {
            let start = try #require(text.range(of: title)).lowerBound
            state.press(.click(row: titles, column: text.distance(from: text.startIndex, to: start)))
            #expect(state.order.key == key)
        }
        let before = state.order
        // These clicks are outside all rows and titles.
        for (row, column) in [(0, 0), (titles - 1, 3), (23, 3), (22, 3), (1_000, 3), (-1, -1), (titles, 1_000)] {
            state.press(.click(row: row, column: column))
            #expect(state.order == before && state.expanded.count == 1 && state.mode == .list)
        }
        state.press("?", .click(row: titles, column: 0), .wheelDown)
        #expect(state.mode == .page(.help, scroll: 3))
        state.press(.wheelUp, "q", .wheelDown)
        #expect(state.mode == .list && state.cursor > 2)
    }

    @Test("mouse reports are read exactly, and a text that is no report is given up after a few characters")
    func mouseReports() {
        /// The outcome of `text`, and how many of its characters the report took.
        func read(_ text: String) -> (outcome: MouseReport.Outcome, length: Int) {
            var report = MouseReport()
            for (index, character) in text.unicodeScalars.enumerated() {
                let outcome = report.take(character)
                if outcome != .unfinished { return (outcome, index + 1) }
            }
            return (.unfinished, text.unicodeScalars.count)
        }
        #expect(read("0;21;5M").outcome == .finished(.click(row: 4, column: 20)))
        #expect(read("0;9999;9999M").outcome == .finished(.click(row: 9998, column: 9998)))
        #expect(read("28;1;1M").outcome == .finished(.click(row: 0, column: 0)), "with Shift, Meta and Control")
        #expect(read("64;1;1M").outcome == .finished(.wheelUp) && read("65;1;1M").outcome == .finished(.wheelDown))
        for text in ["0;21;5m", "1;1;1M", "66;1;1M", "0;0;1M", "0;1M", "0;1;1;1M", "M", "x", "0;1\u{1b}"] {
            #expect(read(text).outcome == .finished(nil), "\(text)")
        }
        var random = Seeded(7)
        let alphabet = Array("0123456789;Mm<\u{1b}é".unicodeScalars)
        for _ in 0..<100_000 {
            var text = String.UnicodeScalarView()
            for _ in 0..<40 { text.append(alphabet[Int.random(in: 0..<alphabet.count, using: &random)]) }
            let (outcome, length) = read(String(text))
            #expect(length <= 16 && outcome != .unfinished)
        }
    }

    @Test("every choice that is kept comes back")
    func settings() throws {
        var state = try Fixture.top()
        state.press("t", "N", "r", "g", "b", "d", "e")
        let settings = state.settings
        let standard = TopSettings()
        #expect(settings.sort == .name && settings.reverse && settings.group == .executable)
        #expect(settings.measure == .totals && settings.units == .bits)
        #expect(settings.showsDetails && settings.showsEndpoints)
        let text = try JSONEncoder().encode(settings)
        let kept = try JSONDecoder().decode(TopSettings.self, from: text)
        #expect(kept == settings)
        let again = TopState(size: state.size, typeface: state.typeface, address: "/", settings: kept)
        #expect(again.settings == settings)
        let strange = Data(#"{"sort": "colour", "units": "bits", "reverse": 7, "new": []}"#.utf8)
        #expect(try JSONDecoder().decode(TopSettings.self, from: strange) == TopSettings(units: .bits))
        #expect(TopState(size: state.size, typeface: state.typeface, address: "/").settings == standard)
    }

    @Test("habits from other programs: F keys, u, I, s, m")
    func habits() throws {
        var state = try Fixture.top()
        state.press(.function(1))
        #expect(state.mode == .page(.help, scroll: 0))
        state.press(.function(1), .function(4))
        #expect(state.mode == .filter(LineEditor("")))
        state.press(.escape, "u")
        state.type("www")
        #expect(state.filterText == "user:www")
        state.press(.enter, "u")
        #expect(state.mode == .filter(LineEditor("user:www user:")))
        state.press(.escape, "I", "s")
        #expect(state.filterText == "user:www" && state.order == RowOrder(.sentRate))
        state.press("m")
        #expect(state.order == RowOrder(.sent))
        state.press(.control("l"))
        #expect(state.wantsRedraw)
        state.press(.function(10))
        #expect(state.wantsQuit)
    }

    @Test("among rows with equal values the running processes come first")
    func runningFirst() throws {
        var state = try Fixture.top()
        var snapshot = try Fixture.snapshot(tick: 29)
        snapshot.processes?[5].state = .exited
        state.receive(snapshot)
        #expect(self.pids(state) == [4_194_304, 812, 77, 901, 2, 1301])
    }

    @Test("a reused pid is another process, and the cursor does not confuse the two")
    func pidReuse() throws {
        var state = try Fixture.top()
        state.press(.down)
        var snapshot = try Fixture.snapshot(tick: 31)
        snapshot.processes?[0].identity.startBoottimeNanoseconds += 1
        snapshot.processes?[0].rates = PayloadRates()
        state.receive(snapshot)
        #expect(!state.selectedText.contains("nginx"))
    }

    @Test("rows with equal values stand by pid, also when the daemon lists them otherwise")
    func stableOrder() throws {
        var state = try Fixture.top()
        let before = self.pids(state)
        #expect(before == [4_194_304, 812, 2, 77, 901, 1301])
        var snapshot = try Fixture.snapshot(tick: 29)
        snapshot.processes?.reverse()
        state.receive(snapshot)
        #expect(self.pids(state) == before)
        state.press("r")
        #expect(self.pids(state) == [2, 77, 901, 1301, 812, 4_194_304])
    }

    @Test(
        "each key sorts by its column, and a second press reverses the order",
        arguments: [
            ("S", [812, 4_194_304]), ("D", [4_194_304, 812]), ("C", [4_194_304, 812]), ("P", [2, 77]),
            ("N", [1301, 77]),
            ("U", [77, 901]), ("A", [812, 4_194_304]),
        ] as [(Key, [Int32])]
    )
    func sortKeys(_ key: Key, _ first: [Int32]) throws {
        // After another order, so that every key is pressed for the first time.
        var state = try Fixture.top(ticks: 35)
        state.order = RowOrder(.total, isReversed: true)
        state.press(key)
        #expect(Array(self.pids(state).prefix(2)) == first)
        state.press(key)
        #expect(self.pids(state).last == first.first)
    }

    @Test("< and > go through the columns on the screen, and wrap around")
    func neighbours() throws {
        var state = try Fixture.top(width: 80)
        var keys: [SortKey] = []
        for _ in 0..<9 {
            keys.append(state.order.key)
            state.press(">")
        }
        #expect(keys == [.rate, .sent, .received, .pid, .user, .name, .sockets, .sentRate, .receivedRate])
        state.press("<", "<")
        #expect(state.order.key == .sentRate)
    }

    @Test("t switches the sort between a rate and its total")
    func measure() throws {
        var state = try Fixture.top()
        state.press("S", "t")
        #expect(state.order.key == .sent)
        state.press("t")
        #expect(state.order.key == .sentRate)
    }

    @Test("a paused screen stands still, and resuming shows what came meanwhile")
    func pause() throws {
        var state = try Fixture.top()
        state.press(" ")
        let still = state.frame()
        for tick in 30..<35 { state.receive(try Fixture.snapshot(tick: tick)) }
        #expect(state.frame() == still)
        state.press(" ")
        #expect(state.frame() != still)
        #expect(state.timeline.sent.samples.count == 35)
    }

    @Test("a row opened while paused gets its sockets from the running stream")
    func pausedSockets() throws {
        var state = try Fixture.top()
        state.press(.down, " ", .enter)
        #expect(state.socketDemand == .of([812]))
        state.receive(try Fixture.snapshot(tick: 31, withSockets: true))
        #expect(state.frame().plainText.contains("192.168.100.200"))
        let still = state.frame()
        state.receive(try Fixture.snapshot(tick: 32, withSockets: true))
        #expect(state.frame() == still)
    }

    @Test("sockets of one process are not taken for those of another")
    func partialSockets() throws {
        var state = try Fixture.top()
        state.press(.down, .enter)
        var snapshot = try Fixture.snapshot(tick: 31, withSockets: true)
        snapshot.socketsOf = [99]
        snapshot.sockets = []
        state.receive(snapshot)
        #expect(!state.frame().plainText.contains("no sockets"))
        state.press(" ")
        snapshot.socketsOf = [812]
        state.receive(snapshot)
        #expect(state.frame().plainText.contains("no sockets"))
    }

    @Test("sockets are requested only while the screen shows them")
    func socketDemand() throws {
        var state = try Fixture.top()
        #expect(state.socketDemand == .none)
        state.press(.enter)
        let first = state.socketDemand
        #expect(first != .none && first != .all)
        try state.setFilter("nginx")
        #expect(state.socketDemand == .all)
        state.press("\\")
        #expect(state.socketDemand == first)
        state = try Fixture.top()
        state.press(.enter, .left)
        #expect(state.socketDemand == .none)
        state.press("g", "g", "g", "g")
        #expect(state.socketDemand == .all)
        state.press("g")
        try state.setFilter("port:443")
        #expect(state.socketDemand == .all)
        state.press("\\")
        #expect(state.socketDemand == .none)
    }

    @Test("an open row whose process is gone requests no sockets")
    func openRowGone() throws {
        var state = try Fixture.top()
        state.press(.down, .enter)
        var snapshot = try Fixture.snapshot(tick: 31)
        snapshot.processes?.removeAll { $0.identity.pid == 812 }
        state.receive(snapshot)
        #expect(state.socketDemand == .none)
    }

    @Test("left goes to the parent and closes it")
    func collapse() throws {
        var state = try Fixture.top(withSockets: true)
        state.press(.down, .right, .down, .down)
        #expect(state.selectedText.contains("2001:db8"))
        state.press(.left)
        #expect(state.selectedText.contains("nginx"))
        #expect(state.rows.count == 7)
    }

    @Test("a frozen row stands first whatever its process moves, until the row is freed")
    func pin() throws {
        var state = try Fixture.top()
        state.press(.end, .up, "f")
        #expect(self.pids(state).first == 1301)
        state.receive(try Fixture.snapshot(tick: 31))
        #expect(self.pids(state).first == 1301)
        state.press("f")
        #expect(self.pids(state).first == 812)
    }

    @Test("a filter works as it is typed, an error leaves it, and Esc brings the old one back")
    func filter() throws {
        var state = try Fixture.top()
        try state.setFilter("nginx")
        state.press("/")
        state.press(.control("u"))
        state.type("node")
        #expect(self.pids(state) == [4_194_304])
        state.type(" bad:term")
        #expect(state.filterError != nil)
        state.press(.enter)
        if case .filter = state.mode {} else { Issue.record("a wrong filter was accepted") }
        state.press(.escape)
        #expect(state.filterText == "nginx" && state.filterError == nil && state.mode == .list)
        #expect(self.pids(state) == [812])
        state.press("/", .control("w"), .enter)
        #expect(state.filterText.isEmpty && self.pids(state).count == 6)
    }

    @Test("editing keys work in the prompt, and control characters stay out")
    func editing() throws {
        var state = try Fixture.top()
        state.press("/")
        state.type("q?pause b")
        #expect(!state.wantsQuit && state.filterText == "q?pause b")
        state.press(.left, .left, .backspace, .home, .delete, .end)
        state.press(.character("\u{1b}"), .character("\u{202e}"))
        #expect(state.filterText == "?paus b")
    }

    @Test("a lost daemon dims the rows, and the screen says so; a daemon that returns makes the rows live")
    func lost() throws {
        var state = try Fixture.top()
        state.loseConnection(reason: "gone")
        state.tick(now: Fixture.time(100))
        let row = try #require(state.frame().rows.first { $0.text.contains("nginx") })
        #expect(row.spans.allSatisfy { $0.style.role == .dim })
        #expect(
            state.frame().plainText.contains("waiting for trafficd at /run/trafficd/control.sock, last seen 1m 11s ago")
        )
        state.receive(try Fixture.snapshot(tick: 31))
        #expect(!state.frame().plainText.contains("waiting"))
    }

    @Test(
        "the advice for a daemon that does not answer is for this machine, or for the other one",
        arguments: [true, false]
    )
    func advice(isLocal: Bool) throws {
        var state = TopState(
            size: .init(width: 160, height: 24),
            typeface: Fixture.unicode,
            address: isLocal ? "/run/trafficd/control.sock" : "http://192.0.2.1:10419",
            isLocal: isLocal
        )
        state.loseConnection(reason: "gone")
        let waiting = state.frame().plainText
        #expect(
            waiting.contains(
                "waiting for trafficd at \(isLocal ? "/run/trafficd/control.sock" : "http://192.0.2.1:10419")"
            )
        )
        #expect(waiting.contains("systemctl start trafficd") == isLocal)
        #expect(waiting.contains("it needs the setting listen") != isLocal)
        state.receive(try Fixture.snapshot(tick: 1))
        #expect(!state.frame().plainText.contains("start it"))
        state.loseConnection(reason: "gone")
        #expect(state.frame().plainText.contains("start it: sudo trafficd run") == isLocal)
    }

    @Test("over TCP, where no daemon shows sockets, nothing waits for them")
    func withoutSockets() throws {
        var state = TopState(
            size: .init(width: 100, height: 24),
            typeface: Fixture.unicode,
            address: "http://192.0.2.1:10419",
            isLocal: false,
            settings: TopSettings(group: .remote)
        )
        #expect(state.grouping == .process)
        var snapshot = try Fixture.snapshot(tick: 1)
        snapshot.sockets = nil
        state.receive(snapshot)
        for _ in Grouping.allCases {
            state.press(.character("g"))
            #expect(state.grouping != .remote)
        }
        #expect(throws: FilterError(reason: .noSockets, offset: 0)) { try state.setFilter("port:443") }
        #expect(state.filterText.isEmpty)
        while state.grouping != .process { state.press(.character("g")) }
        state.press(.enter)
        let opened = state.frame().plainText
        #expect(
            opened.contains("sockets are shown on control.sock, or with the administrators' token")
                && !opened.contains("reading the sockets")
        )
    }

    @Test("another boot or a daemon that counts from the start begins new histories")
    func newCounters() throws {
        var state = try Fixture.top()
        var snapshot = try Fixture.snapshot(tick: 1)
        snapshot.countingSince = Fixture.time(0)
        state.receive(snapshot)
        #expect(state.timeline.sent.samples.count == 1)
        // The same snapshot again, as after a change of stream, is no sample.
        state.receive(snapshot)
        #expect(state.timeline.sent.samples.count == 1)
    }

    @Test(
        "pages scroll within their text and close with the key that opened them",
        arguments: ["?", "c", "i"] as [Key]
    )
    func pages(_ key: Key) throws {
        var state = try Fixture.top(height: 8)
        let list = state.frame()
        state.press(key, .up, .end, .pageDown, .down)
        let end = state.frame()
        state.press(.down)
        #expect(state.frame() == end)
        state.press(.home, key)
        #expect(state.frame() == list)
        #expect(!state.wantsQuit)
    }

    @Test("no key crashes in any mode, at any size")
    func anyKeys() throws {
        var generator = Seeded(11)
        let keys: [Key] =
            KeyBindings.list.flatMap { $0.bindings.flatMap(\.keys) } + [.backspace, .delete, .tab, .enter, "x", "日"]
        var state = try Fixture.top(withSockets: true)
        for step in 0..<4000 {
            let key = keys.randomElement(using: &generator) ?? .enter
            state.press(key)
            if step % 50 == 0 {
                state.resize(
                    to: .init(
                        width: Int.random(in: 1...150, using: &generator),
                        height: Int.random(in: 1...50, using: &generator)
                    )
                )
                state.receive(try Fixture.snapshot(tick: step, withSockets: step % 100 == 0))
            }
            FrameTests.check(
                state.frame(),
                width: state.size.width,
                height: state.size.height,
                typeface: state.typeface
            )
        }
    }

    @Test("every binding has its own key, and help for it")
    func bindings() {
        let bindings = KeyBindings.list.flatMap(\.bindings)
        let keys = bindings.flatMap(\.keys)
        #expect(Set(keys).count == keys.count)
        #expect(bindings.allSatisfy { $0.label == nil || !$0.help.isEmpty })
    }
}
