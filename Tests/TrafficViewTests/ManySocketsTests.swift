import Testing
import TrafficModel

@testable import TrafficView

@Suite("A process with 10,000 sockets")
struct ManySocketsTests {
    private func state() throws -> TopState {
        var snapshot = try Fixture.snapshot()
        let local = try Fixture.address("10.0.0.5", 443)
        snapshot.sockets = try (0..<10_000).map { index in
            Fixture.socket(
                UInt64(index + 1),
                of: 812,
                local: local,
                remote: try Fixture.address("192.168.\(index / 250).\(index % 250 + 1)", 40_000),
                payload: PayloadBytes(sent: UInt64(index), received: 0),
                rates: PayloadRates(sent: Double(index), received: 0)
            )
        }
        var state = try Fixture.top(ticks: 0)
        state.receive(snapshot)
        return state
    }

    @Test("shows the busiest and says how many more there are")
    func cut() throws {
        var state = try self.state()
        state.press(.down, .enter)
        #expect(state.rows.count == 7 + ListBuilder.socketsShown + 1)
        guard case .socket(let first, _) = state.rows[2].content else { return #expect(Bool(false)) }
        #expect(first == 9999)
        #expect(state.frame().rows.count == 24)
        for _ in 0..<ListBuilder.socketsShown + 1 { state.press(.down) }
        #expect(state.selectedText.contains("9,950 more sockets, Enter shows them"))
    }

    @Test("shows all sockets on Enter, and the cursor stays at its place")
    func all() throws {
        var state = try self.state()
        state.press(.down, .enter)
        for _ in 0..<ListBuilder.socketsShown + 1 { state.press(.down) }
        state.press(.enter)
        #expect(state.rows.count == 7 + 10_000)
        #expect(state.cursor == 1 + ListBuilder.socketsShown + 1)
        guard case .socket(let index, _)? = state.selectedRow?.content else { return #expect(Bool(false)) }
        #expect(index == 9999 - ListBuilder.socketsShown)
        // Scrolling draws only the rows on the screen, not all rows.
        for _ in 0..<200 { state.press(.pageDown) }
        #expect(state.frame().rows.count == 24)
        state.press(.left)
        #expect(state.rows.count == 7 && state.selectedText.contains("nginx"))
    }

    @Test("groups by remote address")
    func byRemote() throws {
        var state = try self.state()
        state.press("g", "g", "g", "g")
        #expect(state.rows.count == 10_000)
        FrameTests.check(state.frame(), width: 80, height: 24, typeface: state.typeface)
    }
}
