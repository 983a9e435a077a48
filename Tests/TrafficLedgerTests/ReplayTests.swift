import Foundation
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

/// Events that a daemon recorded (`trafficd run --record-events`, method tracepoint, Linux 6.18) while a generator moved known bytes:
/// TCP, UDP, MPTCP, splice, a socket shared by fork, a socket written by 16 threads, a socket used by 8
/// processes. The truth file is the sum of what the generator's calls returned.
@Suite("Recorded events")
struct ReplayTests {
    struct Truth: Decodable, Hashable {
        var cookie: UInt64
        var pid: Int32
        var sent: UInt64
        var received: UInt64
    }

    static func load() throws -> (events: [CaptureEvent], truth: [Truth]) {
        let recording = try #require(
            Bundle.module.url(forResource: "loopback", withExtension: "ndjson", subdirectory: "Recordings")
        )
        let truth = try #require(
            Bundle.module.url(forResource: "loopback.truth", withExtension: "json", subdirectory: "Recordings")
        )
        let decoder = JSONDecoder()
        let lines = try String(contentsOf: recording, encoding: .utf8).split(separator: "\n")
        return (
            try lines.map { try decoder.decode(CaptureEvent.self, from: Data($0.utf8)) },
            try decoder.decode([Truth].self, from: try Data(contentsOf: truth))
        )
    }

    /// A closed socket leaves the list after a while. Here it stays, so that the last snapshot has all sockets.
    static let retention = Ledger.Retention(closedSockets: .seconds(3_600))

    static func snapshot(after events: [CaptureEvent]) -> Snapshot {
        var fixture = LedgerFixture(retention: self.retention)
        fixture.ledger = Ledger(retention: self.retention)
        for event in events { fixture.ledger.absorb(event) }
        return fixture.snapshot
    }

    @Test("give each process and socket the bytes that its calls returned")
    func truth() throws {
        let (events, truth) = try Self.load()
        let snapshot = Self.snapshot(after: events)
        // An accepted MPTCP socket has its listener's cookie, which moved nothing: two sockets, one line of the truth.
        var counted: Set<Truth> = []
        for socket in snapshot.sockets ?? [] {
            for owner in socket.owners where owner.payload.total > 0 {
                counted.insert(
                    Truth(
                        cookie: socket.cookie.rawValue,
                        pid: owner.identity.pid,
                        sent: owner.payload.sent,
                        received: owner.payload.received
                    )
                )
            }
        }
        // A process that only held a socket moved nothing over it and may not be among its owners.
        #expect(counted == Set(truth.filter { $0.sent + $0.received > 0 }))
        #expect(snapshot.totals.bytes.payload.sent == truth.reduce(0) { $0 + $1.sent })
        #expect(snapshot.totals.bytes.payload.received == truth.reduce(0) { $0 + $1.received })
    }

    @Test("give the same snapshot every time, and when each event comes twice")
    func deterministic() throws {
        let (events, _) = try Self.load()
        let once = Self.snapshot(after: events)
        #expect(Self.snapshot(after: events) == once)
        #expect(Self.snapshot(after: events.flatMap { [$0, $0] }) == once)
    }

    @Test("give the same bytes with only the last record of each socket")
    func lastWord() throws {
        let (events, _) = try Self.load()
        let full = Self.snapshot(after: events)
        var last: [UInt64: CaptureEvent] = [:]
        for event in events {
            if case .socket(let socket) = event { last[socket.serial] = event }
        }
        let tick = events.filter { if case .tick = $0 { true } else { false } }
        let sparse = Self.snapshot(after: Array(last.values) + tick.suffix(1))
        #expect(sparse.totals.bytes.payload == full.totals.bytes.payload)
        #expect(sparse.sockets?.map(\.owners) == full.sockets?.map(\.owners))
    }

    @Test("each byte of a connected socket is in a scope, and a class of the same addresses has the same sum")
    func destinations() throws {
        let (events, _) = try Self.load()
        var fixture = LedgerFixture()
        let classes = try AddressClasses(["local=127.0.0.0/8,::1", "rest=0.0.0.0/0,::/0"])
        fixture.ledger = Ledger(retention: Self.retention, classes: classes)
        for event in events { fixture.ledger.absorb(event) }
        let snapshot = fixture.snapshot
        let connected = (snapshot.sockets ?? []).filter { !$0.remote.address.isUnspecified }
        let sum = connected.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
        #expect(sum.total > 10_000_000)
        // The recording has no host addresses, because it is older than that event. All of its traffic was on loopback.
        #expect(snapshot.totals.byScope.mapValues(\.payload) == ["loopback": sum])
        #expect(snapshot.totals.byClass?.mapValues(\.payload) == ["local": sum, "rest": PayloadBytes()])
    }

    @Test("the host's addresses are an event like the others")
    func hostAddresses() throws {
        let line = #"{"hostAddresses":{"_0":["10.0.0.5","fe80::1"]}}"#
        let event = try JSONDecoder().decode(CaptureEvent.self, from: Data(line.utf8))
        let addresses = ["10.0.0.5", "fe80::1"].compactMap { InternetAddress($0) }
        #expect(event == .hostAddresses(Set(addresses)))
        #expect(try JSONDecoder().decode(CaptureEvent.self, from: try JSONEncoder().encode(event)) == event)
    }
}
