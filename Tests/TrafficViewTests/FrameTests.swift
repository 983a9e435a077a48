import Foundation
import Testing
import TrafficModel

@testable import TrafficView

/// Pictures of the screen, kept as text in Frames/. `UPDATE_FRAMES=1 swift test` draws them again; look at
/// the difference before committing.
@Suite("Screens of top")
struct FrameTests {
    struct Scene: Sendable, CustomTestStringConvertible {
        var name: String
        var width = 80
        var height = 24
        var typeface = Fixture.unicode
        var withSockets = false
        var ticks = 30
        var prepare: @Sendable (inout TopState) throws -> Void = { _ in }
        var testDescription: String { self.name }
    }

    static let scenes: [Scene] = [
        Scene(name: "80x24"),
        Scene(name: "120x40", width: 120, height: 40),
        Scene(name: "200x20", width: 200, height: 20),
        Scene(name: "40x10", width: 40, height: 10),
        Scene(name: "20x5", width: 20, height: 5),
        Scene(name: "80x24-ascii", typeface: .ascii),
        Scene(name: "20x5-ascii", width: 20, height: 5, typeface: .ascii),
        Scene(name: "80x24-bits") { $0.press("b") },
        Scene(name: "80x24-totals") { $0.press("t") },
        Scene(name: "40x10-totals", width: 40, height: 10) { $0.press("t") },
        Scene(name: "80x24-expanded", withSockets: true) { $0.press(.down, .enter, .down) },
        Scene(name: "120x40-expanded", width: 120, height: 40, withSockets: true) { $0.press(.down, .enter) },
        Scene(name: "80x24-expanded-ascii", typeface: .ascii, withSockets: true) { $0.press(.down, .enter) },
        Scene(name: "40x12-expanded", width: 40, height: 12, withSockets: true) { $0.press(.down, .enter) },
        Scene(name: "80x24-sockets-unlisted") { state in
            var snapshot = try Fixture.snapshot(withSockets: true)
            snapshot.socketsUnlisted = 737_856
            state.receive(snapshot)
            state.press(.down, .enter)
        },
        Scene(name: "80x24-alerts") { state in
            var snapshot = try Fixture.snapshot()
            snapshot.alertsActive = 2
            state.receive(snapshot)
        },
        Scene(name: "80x24-sockets-pending") { $0.press(.enter) },
        Scene(name: "80x24-filtered") { try $0.setFilter("nginx") },
        Scene(name: "80x24-filtering") {
            $0.press("/")
            $0.type("user:app")
        },
        Scene(name: "80x24-filter-error") {
            $0.press("/")
            $0.type("colour:red")
        },
        Scene(name: "80x24-filter-nothing") { try $0.setFilter("nosuchprocess") },
        Scene(name: "80x24-by-executable") { $0.press("g") },
        Scene(name: "80x24-by-unit") { $0.press("g", "g", .enter) },
        Scene(name: "80x24-by-user") { $0.press("g", "g", "g") },
        Scene(name: "80x24-by-remote", withSockets: true) { $0.press("g", "g", "g", "g", .enter) },
        Scene(name: "80x24-paused") { state in
            state.press(" ")
            for tick in 30..<40 { state.receive(try Fixture.snapshot(tick: tick)) }
        },
        Scene(name: "80x24-frozen") { $0.press(.end, .up, "f") },
        Scene(name: "80x24-details") { $0.press("d") },
        Scene(name: "80x24-details-page", withSockets: true) { $0.press(.down, "i") },
        Scene(name: "80x24-details-socket", withSockets: true) { $0.press(.down, .enter, .down, "i") },
        Scene(name: "80x24-explained") { $0.receive(try Fixture.snapshotWithEndpoints()) },
        Scene(name: "80x24-endpoints") { state in
            state.receive(try Fixture.snapshotWithEndpoints())
            state.press("e", .enter)
        },
        Scene(name: "120x40-endpoints", width: 120, height: 40) { state in
            state.receive(try Fixture.snapshotWithEndpoints())
            state.press(.enter, "a", .down, "d")
        },
        Scene(name: "40x12-endpoints", width: 40, height: 12) { state in
            state.receive(try Fixture.snapshotWithEndpoints())
            state.press("e", .enter)
        },
        Scene(name: "80x24-endpoints-none", withSockets: true) { $0.press(.enter, "e") },
        Scene(name: "80x24-classes", withSockets: true) { $0.receive(try Fixture.snapshotWithClasses()) },
        Scene(name: "80x20-classes", height: 20) { $0.receive(try Fixture.snapshotWithClasses()) },
        Scene(name: "40x24-classes", width: 40) { $0.receive(try Fixture.snapshotWithClasses()) },
        Scene(name: "120x40-classes", width: 120, height: 40) { $0.receive(try Fixture.snapshotWithClasses()) },
        Scene(name: "80x24-classes-capture") { state in
            state.receive(try Fixture.snapshotWithClasses())
            state.press("c", .end)
        },
        Scene(name: "80x24-details-class", withSockets: true) { state in
            state.receive(try Fixture.snapshotWithClasses())
            state.press(.enter, .down, "i")
        },
        Scene(name: "80x24-help") { $0.press("?") },
        Scene(name: "40x12-help", width: 40, height: 12) { $0.press("?", .pageDown) },
        Scene(name: "80x24-capture") { $0.press("c") },
        Scene(name: "80x24-connecting", ticks: 0),
        Scene(name: "80x24-waiting", ticks: 0) { $0.loseConnection(reason: "no such file") },
        Scene(name: "20x5-waiting", width: 20, height: 5, ticks: 0) { $0.loseConnection(reason: "no such file") },
        Scene(name: "80x24-lost") {
            $0.loseConnection(reason: "trafficd closed the connection")
            $0.tick(now: Fixture.time(72))
        },
        Scene(name: "80x24-silent") { $0.tick(now: Fixture.time(60)) },
        Scene(name: "80x24-loss") { state in
            var snapshot = try Fixture.snapshot(tick: 30)
            snapshot.capture = CaptureStatus(
                method: .poll,
                reason: "no permission to load BPF programs",
                hooks: [],
                blindSpots: ["UDP is not seen.", "Sockets that live less than a second are missed."],
                loss: CaptureLoss(ringFull: 12, mapFull: 3)
            )
            state.receive(snapshot)
        },
        Scene(name: "40x24-poll", width: 40) { $0.receive(try Self.polled()) },
        Scene(name: "20x5-poll", width: 20, height: 5) { $0.receive(try Self.polled()) },
        Scene(name: "80x24-poll") { $0.receive(try Self.polled()) },
        Scene(name: "80x24-empty", ticks: 0) { state in
            var snapshot = try Fixture.snapshot()
            snapshot.processes = []
            snapshot.exited = []
            state.receive(snapshot)
        },
    ]

    static func polled() throws -> Snapshot {
        var snapshot = try Fixture.snapshot(tick: 30)
        snapshot.host.name = "a-host-with-a-long-name.example.org"
        snapshot.capture = CaptureStatus(
            method: .poll,
            reason: "fexit: sweep_held_sockets: Operation not permitted; tracepoint: the same",
            hooks: [],
            blindSpots: ["UDP is not seen."],
            loss: CaptureLoss()
        )
        return snapshot
    }

    @Test("a screen looks as it did", arguments: Self.scenes)
    func screen(_ scene: Scene) throws {
        var state = try Fixture.top(
            width: scene.width,
            height: scene.height,
            typeface: scene.typeface,
            ticks: scene.ticks,
            withSockets: scene.withSockets
        )
        try scene.prepare(&state)
        let frame = state.frame()
        Self.check(frame, width: scene.width, height: scene.height, typeface: scene.typeface)
        try Self.compare(frame.plainText, with: scene.name)
    }

    @Test("once prints all rows without keys, or as many as asked for")
    func once() throws {
        var state = try Fixture.top(width: 100, ticks: 2)
        try Self.compare(state.wholeFrame().plainText, with: "once")
        #expect(state.wholeFrame(limit: 2).rows.count == 4 + 1 + 2)
        state.resize(to: .init(width: 100, height: 3))
        #expect(state.wholeFrame().rows.count == 4 + 1 + 7)
    }

    @Test("no size makes a frame that does not fit", arguments: [1, 2, 3, 5, 8, 13, 21, 34, 55, 80, 250])
    func everySize(width: Int) throws {
        for height in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 18, 25] {
            for scene in Self.scenes {
                var state = try Fixture.top(
                    width: width,
                    height: height,
                    typeface: scene.typeface,
                    ticks: min(3, scene.ticks),
                    withSockets: scene.withSockets
                )
                try scene.prepare(&state)
                Self.check(state.frame(), width: width, height: height, typeface: scene.typeface)
            }
        }
    }

    /// Checks what has to hold for every frame.
    static func check(_ frame: Frame, width: Int, height: Int, typeface: Typeface) {
        #expect(frame.rows.count <= height)
        for row in frame.rows {
            #expect(typeface.columns(of: row.text) <= width, "\(row.text)")
            let isClean = row.text.unicodeScalars.allSatisfy {
                $0.properties.generalCategory != .control && !$0.properties.isDefaultIgnorableCodePoint
            }
            #expect(isClean, "a control character in \(row.text.debugDescription)")
            if !typeface.isUnicode { #expect(row.text.utf8.allSatisfy { $0 < 0x80 }, "\(row.text)") }
        }
        if let cursor = frame.cursor {
            #expect((0..<width).contains(cursor.column) && (0..<height).contains(cursor.row))
        }
    }

    static func compare(_ text: String, with name: String) throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Frames/\(name).txt")
        if ProcessInfo.processInfo.environment["UPDATE_FRAMES"] != nil {
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        let expected = try String(contentsOf: file, encoding: .utf8)
        #expect(text == expected, "differs from Frames/\(name).txt:\n\(text)")
    }
}
