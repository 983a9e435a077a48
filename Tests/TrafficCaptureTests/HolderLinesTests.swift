import CTrafficABI
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficCapture

@Suite("Lines of the list of holders")
struct HolderLinesTests {
    private static func line(
        _ serial: UInt64,
        _ pid: UInt32,
        uid: UInt32 = 7,
        byFirst: Bool = false,
        isFirst: Bool = false
    ) -> traffic_holder {
        var line = traffic_holder()
        (line.serial, line.is_first) = (serial, isFirst ? 1 : 0)
        line.held_by = TRAFFIC_HELD_BY_OTHERS.rawValue | (byFirst ? TRAFFIC_HELD_BY_FIRST.rawValue : 0)
        (line.owner.tgid, line.owner.start_boottime_ns, line.owner.uid) = (pid, UInt64(pid), uid)
        return line
    }

    @Test("the first user is a holder by its own line or by what another line says, and is none of the others")
    func first() {
        var lines = HolderLines()
        for line in [
            Self.line(1, 10), Self.line(1, 10), Self.line(1, 11), Self.line(1, 5, byFirst: true, isFirst: true),
            Self.line(2, 12, byFirst: true), Self.line(3, 13),
        ] { lines.add(line) }
        let sockets = lines.sockets
        #expect(sockets.map(\.serial) == [1, 2, 3])
        #expect(sockets.map(\.isHeldByFirst) == [true, true, false])
        #expect(sockets.map { $0.others.map(\.identity.pid) } == [[10, 11], [12], [13]])
        #expect(sockets.map(\.isComplete) == [true, true, true])
    }

    @Test("beyond a user's places, sockets that are listed say that lines are missing, and others keep their places")
    func limit() {
        var lines = HolderLines()
        let most = UInt32(HolderList.limit.ofUser)
        for pid in 1...most { lines.add(Self.line(UInt64(pid % 2), pid)) }
        lines.add(Self.line(1, most + 1))
        lines.add(Self.line(9, most + 2))
        lines.add(Self.line(9, most + 3, uid: 8))
        let sockets = lines.sockets
        #expect(sockets.map(\.serial) == [0, 1, 9] && sockets.map(\.isComplete) == [true, false, true])
        #expect(sockets[2].others.map(\.uid) == [8])
        let all = sockets.map(\.others.count).reduce(0, +)
        #expect(all == Int(most) + 1)
    }
}
