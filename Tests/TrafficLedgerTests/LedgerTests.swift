import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

/// Events in the order in which a capture could have sent them, in short form.
struct LedgerFixture {
    var ledger: Ledger
    private var seconds: UInt64 = 1_000

    init(retention: Ledger.Retention = Ledger.Retention()) {
        self.ledger = Ledger(retention: retention)
        self.tick(after: 0)
    }

    static func process(_ pid: Int32, start: UInt64 = 5) -> ProcessIdentity {
        ProcessIdentity(pid: pid, startBoottimeNanoseconds: start)
    }

    static func owner(
        _ identity: ProcessIdentity,
        sent: UInt64 = 0,
        received: UInt64 = 0,
        name: String = "app"
    ) -> OwnerObservation {
        OwnerObservation(identity: identity, name: name, payload: PayloadBytes(sent: sent, received: received))
    }

    /// A socket that was opened at a time of `CLOCK_BOOTTIME`.
    static func opened(_ cookie: UInt64, _ owners: [OwnerObservation], at boottime: UInt64) -> CaptureEvent {
        guard case .socket(var observation) = self.socket(cookie, owners) else { return self.socket(cookie, owners) }
        observation.openedBoottimeNanoseconds = boottime
        return .socket(observation)
    }

    static func socket(
        _ cookie: UInt64,
        _ owners: [OwnerObservation],
        remote: String = "127.0.0.1",
        closed: UInt64? = nil,
        connect: ConnectTimes? = nil,
        preexisting: Bool = false,
        retransmitted: UInt64 = 0,
        pending: UInt64? = nil,
        wire: SocketWire? = nil,
        stream: TCPStream? = nil,
        unowned: PayloadBytes = PayloadBytes(),
        inRows: PayloadBytes? = nil,
        transport: TransportProtocol = .tcp,
        networkNamespace: UInt32 = 0,
        record: UInt32? = nil
    ) -> CaptureEvent {
        .socket(
            SocketObservation(
                cookie: SocketCookie(rawValue: cookie),
                transport: transport,
                family: .ipv4,
                local: SocketAddress(address: InternetAddress("127.0.0.1") ?? .unspecified, port: 80),
                remote: SocketAddress(address: InternetAddress(remote) ?? .unspecified, port: 4711),
                role: .server,
                state: closed == nil ? .established : .closed,
                closedBoottimeNanoseconds: closed,
                connect: connect,
                preexisting: preexisting,
                networkNamespace: networkNamespace,
                tcp: TCPCounters(retransmittedBytes: retransmitted),
                pendingSent: pending,
                wire: wire,
                stream: stream,
                owners: owners,
                unowned: unowned,
                inRows: inRows,
                record: record
            )
        )
    }

    mutating func absorb(_ events: CaptureEvent...) {
        for event in events { self.ledger.absorb(event) }
    }

    mutating func look(afterMilliseconds step: UInt64) {
        let milliseconds = Int64(1_700_000_000_000 + self.seconds * 1_000 + step)
        self.ledger.absorb(
            .look(
                at: Timestamp(nanosecondsSinceEpoch: milliseconds * 1_000_000),
                boottimeNanoseconds: self.seconds * 1_000_000_000 + step * 1_000_000
            )
        )
    }

    mutating func tick(after step: Int64 = 1) {
        self.seconds = self.seconds.advanced(by: Int(step))
        self.ledger.absorb(
            .tick(
                at: Timestamp(nanosecondsSinceEpoch: Int64(1_700_000_000 + self.seconds) * 1_000_000_000),
                boottimeNanoseconds: self.seconds * 1_000_000_000
            )
        )
    }

    var capture = CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])

    var now: UInt64 { self.seconds * 1_000_000_000 }

    var snapshot: Snapshot { self.reading.snapshot }

    var reading: Reading {
        self.ledger.reading(
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            host: HostDescription(name: "host", bootID: "boot", kernel: "6"),
            daemon: DaemonDescription(version: "0", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: self.capture
        )
    }

    var balance: Balance { self.ledger.balance(countingSince: Timestamp(nanosecondsSinceEpoch: 0)) }

    var metrics: MetricsReading {
        self.ledger.metrics(
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            daemon: DaemonDescription(version: "0", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: self.capture
        )
    }

    func process(_ pid: Int32, start: UInt64 = 5) -> ProcessUsage? {
        self.snapshot.processes?.first { $0.identity == Self.process(pid, start: start) }
    }

    func socket(_ cookie: UInt64) -> SocketUsage? {
        self.snapshot.sockets?.first { $0.cookie.rawValue == cookie }
    }
}

extension InternetAddress {
    static let unspecified = InternetAddress(bytes: InlineArray(repeating: 0))
}

@Suite("Ledger")
struct LedgerTests {
    typealias F = LedgerFixture
    let one = F.process(1)
    let two = F.process(2)

    @Test("a look between ticks has current bytes and the last tick's rates; rates run from tick to tick")
    func looks() throws {
        var fixture = LedgerFixture()
        let app = LedgerFixture.process(1)
        func usage(_ bytes: UInt64) -> CaptureEvent { LedgerFixture.socket(7, [LedgerFixture.owner(app, sent: bytes)]) }
        func interfaces(_ bytes: UInt64) -> CaptureEvent {
            .interfaces([InterfaceUsage(name: "lo", sentBytes: bytes, receivedBytes: 0)])
        }
        fixture.absorb(usage(0), interfaces(0))
        fixture.tick()
        fixture.absorb(usage(1_000), interfaces(1_000))
        fixture.tick()
        let before = fixture.snapshot
        fixture.absorb(usage(1_500), interfaces(1_500))
        fixture.look(afterMilliseconds: 20)
        let look = fixture.snapshot
        #expect(look.takenBoottimeNanoseconds == before.takenBoottimeNanoseconds + 20_000_000)
        #expect(look.takenAt > before.takenAt)
        for rates in [look.totals.rates, look.processes?.first?.rates, look.sockets?.first?.rates] {
            #expect(rates == PayloadRates(sent: 1_000, received: 0))
        }
        #expect(look.interfaces?.first?.sentBytesPerSecond == 1_000)
        #expect(look.totals.bytes.payload.sent == 1_500 && look.interfaces?.first?.sentBytes == 1_500)
        #expect(look.processes?.first?.bytes.payload.sent == 1_500 && look.processes?.first?.socketsOpen == 1)
        // The rates run from tick to tick, across the look.
        fixture.absorb(usage(3_000), interfaces(3_000))
        fixture.tick()
        let after = fixture.snapshot
        #expect(after.takenBoottimeNanoseconds == before.takenBoottimeNanoseconds + 1_000_000_000)
        for rates in [after.totals.rates, after.processes?.first?.rates, after.sockets?.first?.rates] {
            #expect(rates == PayloadRates(sent: 2_000, received: 0))
        }
        #expect(after.interfaces?.first?.sentBytesPerSecond == 2_000)
        // A socket that is new at a look has no rate yet.
        fixture.absorb(LedgerFixture.socket(8, [LedgerFixture.owner(LedgerFixture.process(2), sent: 9)]))
        fixture.look(afterMilliseconds: 20)
        #expect(fixture.snapshot.processes?.last?.rates == PayloadRates())
        #expect(fixture.snapshot.processes?.last?.bytes.payload.sent == 9)
    }

    @Test("a counter's growth is credited once to process, socket, scope and total")
    func credit() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10, received: 20)]))
        f.absorb(F.socket(9, [F.owner(one, sent: 15, received: 20)]))
        f.tick()
        #expect(f.process(1)?.bytes.payload == PayloadBytes(sent: 15, received: 20))
        #expect(f.socket(9)?.bytes.payload == PayloadBytes(sent: 15, received: 20))
        #expect(f.snapshot.totals.bytes.payload == PayloadBytes(sent: 15, received: 20))
        #expect(f.snapshot.totals.byScope["loopback"]?.payload == PayloadBytes(sent: 15, received: 20))
    }

    @Test("bytes of a running call show in rates, and become payload of the calling process when the call returns")
    func pending() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one)], pending: 0))
        f.tick()
        f.absorb(F.socket(9, [F.owner(one)], pending: 500))
        f.tick()
        #expect(f.process(1)?.bytes.payload == PayloadBytes())
        #expect(f.process(1)?.bytes.pendingSent == 500)
        #expect(f.socket(9)?.bytes.pendingSent == 500)
        #expect(f.snapshot.totals.bytes.pendingSent == 500)
        #expect([f.process(1)?.rates.sent, f.socket(9)?.rates.sent, f.snapshot.totals.rates.sent] == [500, 500, 500])

        // The call returned.
        f.absorb(F.socket(9, [F.owner(one, sent: 700)], pending: 0))
        f.tick()
        #expect(f.process(1)?.bytes == ByteCounts(payload: PayloadBytes(sent: 700)))
        #expect([f.process(1)?.rates.sent, f.socket(9)?.rates.sent, f.snapshot.totals.rates.sent] == [200, 200, 200])

        // Two processes use the socket: the ledger can't tell which one called.
        f.absorb(F.socket(9, [F.owner(one, sent: 700), F.owner(two)], pending: 40))
        f.tick()
        #expect([f.process(1)?.bytes.pendingSent, f.process(2)?.bytes.pendingSent] == [0, 0])
        #expect(f.socket(9)?.bytes.pendingSent == 40)
        #expect(f.process(1)?.rates.sent == 0)
    }

    @Test("sockets that several censuses in a row do not list are closed and keep their bytes")
    func census() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(one, sent: 5)], pending: 3), F.socket(2, [F.owner(one, sent: 6)]))
        f.tick()
        // A socket that a later census lists again was only skipped.
        for serials in [[2], [2], [1, 2], [2], [2]] as [Set<UInt64>] { f.absorb(.census(SocketCensus(serials))) }
        #expect(f.socket(1)?.state == .established)
        f.absorb(.census(SocketCensus([2])))
        f.tick()
        #expect(f.socket(1)?.state == .closed)
        #expect(f.socket(1)?.bytes == ByteCounts(payload: PayloadBytes(sent: 5), retransmitted: 0))
        #expect(f.socket(2)?.closedAt == nil)
        #expect(f.process(1)?.socketsOpen == 1)
        #expect(f.process(1)?.bytes.payload.sent == 11)
    }

    @Test("an earlier record of a socket that comes after a later one changes nothing, and is no counter that fell")
    func records() {
        var f = F()
        let records = (1...3).map { number in
            F.socket(9, [F.owner(one, sent: 10 * number)], pending: number, record: UInt32(number))
        }
        f.absorb(records[0], records[2], records[1])
        f.tick()
        #expect(f.process(1)?.bytes.payload.sent == 30)
        #expect(f.socket(9)?.bytes.pendingSent == 3)
        #expect(f.snapshot.capture.loss.countersBackwards == 0)
    }

    @Test("a census of some network namespaces closes no socket of others, and only TCP and UDP")
    func partialCensus() {
        var f = F()
        f.absorb(
            F.socket(1, [F.owner(one, sent: 5)], networkNamespace: 7),
            F.socket(2, [F.owner(one, sent: 6)], networkNamespace: 8),
            F.socket(3, [F.owner(one)], transport: .mptcp, networkNamespace: 7)
        )
        for _ in 0..<CaptureEvent.censusesUntilClosed { f.absorb(.census(SocketCensus([], namespaces: [7]))) }
        f.tick()
        #expect([1, 2, 3].map { f.socket($0)?.state == .closed } == [true, false, false])
    }

    @Test("an observation that comes twice or late changes nothing")
    func idempotent() {
        var f = F()
        let early = F.socket(9, [F.owner(one, sent: 10, received: 20)])
        let late = F.socket(9, [F.owner(one, sent: 30, received: 20)], closed: f.now)
        f.absorb(early, late, early, late, early)
        f.tick()
        #expect(f.process(1)?.bytes.payload == PayloadBytes(sent: 30, received: 20))
        #expect(f.socket(9)?.closedAt != nil)
        #expect(f.socket(9)?.state == .closed)
    }

    @Test("the order of observations does not matter", arguments: 0..<20 as Range<UInt64>)
    func anyOrder(seed: UInt64) {
        var random = Seeded(seed)
        var events: [CaptureEvent] = []
        for step in 1...20 as ClosedRange<UInt64> {
            for cookie in 1...3 as ClosedRange<UInt64> {
                events.append(F.socket(cookie, [F.owner(one, sent: step * cookie), F.owner(two, received: step)]))
            }
        }
        events.shuffle(using: &random)
        var f = F()
        for event in events { f.absorb(event) }
        f.tick()
        #expect(f.process(1)?.bytes.payload == PayloadBytes(sent: 20 * (1 + 2 + 3)))
        #expect(f.process(2)?.bytes.payload == PayloadBytes(received: 60))
    }

    @Test("owners of a shared socket keep their own bytes and the socket has the sum")
    func shared() {
        var f = F()
        let owners = [F.owner(one, sent: 10), F.owner(two, sent: 5), F.owner(F.process(3), sent: 7)]
        let event = F.socket(9, owners, unowned: PayloadBytes(sent: 1))
        f.absorb(event, event)
        f.tick()
        #expect(f.process(1)?.bytes.payload.sent == 10)
        #expect(f.process(2)?.bytes.payload.sent == 5)
        #expect(f.process(3)?.bytes.payload.sent == 7)
        #expect(f.socket(9)?.bytes.payload.sent == 23)
        #expect(f.socket(9)?.owners.count == 3)
        #expect(f.snapshot.totals.bytes.payload.sent == 23)
    }

    @Test("the slots of one process add up")
    func doubleSlot() {
        var f = F()
        let event = F.socket(9, [F.owner(one, sent: 10), F.owner(one, sent: 4), F.owner(one, sent: 3)])
        f.absorb(event, event)
        f.tick()
        #expect(f.process(1)?.bytes.payload.sent == 17)
        #expect(f.socket(9)?.owners.count == 1)
    }

    @Test("pid reuse starts a new row")
    func pidReuse() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(F.process(7, start: 100), sent: 10)]))
        f.absorb(F.socket(2, [F.owner(F.process(7, start: 200), sent: 3)]))
        f.tick()
        #expect(f.process(7, start: 100)?.bytes.payload.sent == 10)
        #expect(f.process(7, start: 200)?.bytes.payload.sent == 3)
    }

    @Test("rates cover the time between two ticks and fall to 0 when traffic ends")
    func rates() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1_000)]))
        f.tick(after: 2)
        #expect(f.process(1)?.rates == PayloadRates(sent: 500, received: 0))
        #expect(f.socket(9)?.rates == PayloadRates(sent: 500, received: 0))
        #expect(f.snapshot.totals.rates == PayloadRates(sent: 500, received: 0))
        f.tick()
        #expect(f.process(1)?.rates == PayloadRates())
        #expect(f.snapshot.totals.rates == PayloadRates())
    }

    @Test("a clock that stands still or goes back gives no rate and loses nothing")
    func clock() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1_000)]))
        f.tick(after: 0)
        #expect(f.process(1)?.rates == PayloadRates())
        f.tick(after: 1)
        #expect(f.process(1)?.rates.sent == 1_000)
        #expect(f.process(1)?.bytes.payload.sent == 1_000)
    }

    @Test("one reading of the clock from the far future gives one wrong rate, and counting goes on")
    func clockGlitch() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1_000)]))
        f.tick(after: 1_000_000_000)
        f.absorb(F.socket(9, [F.owner(one, sent: 2_000)]))
        f.tick(after: -999_999_999)
        #expect(f.process(1)?.rates.sent == 0)
        f.absorb(F.socket(9, [F.owner(one, sent: 3_000)]))
        f.tick(after: 1)
        #expect(f.process(1)?.rates.sent == 1_000)
        #expect(f.snapshot.takenBoottimeNanoseconds == f.now)
    }

    @Test("retransmissions of a socket older than the daemon count from its baseline on")
    func retransmissions() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(one, sent: 1)], preexisting: true, retransmitted: 500))
        f.absorb(F.socket(1, [F.owner(one, sent: 2)], preexisting: true, retransmitted: 520))
        f.absorb(F.socket(2, [F.owner(one, sent: 1)], retransmitted: 7))
        f.tick()
        #expect(f.socket(1)?.bytes.retransmitted == 20)
        #expect(f.socket(2)?.bytes.retransmitted == 7)
        #expect(f.process(1)?.bytes.retransmitted == 27)
        #expect(f.snapshot.totals.bytes.retransmitted == 27)
    }

    @Test("retransmissions count for the owner who sends most, and while nobody sends for the one who has sent most")
    func retransmissionsOfShared() {
        var f = F()
        let owners = (1...40 as ClosedRange<Int32>).map { F.owner(F.process($0), sent: $0 == 17 ? 90 : 5) }
        f.absorb(F.socket(1, owners))
        f.absorb(F.socket(1, owners, retransmitted: 7))
        f.tick()
        #expect(f.snapshot.totals.bytes.retransmitted == 7)
        #expect(f.process(17)?.bytes.retransmitted == 7)
        var later = owners
        later[30].payload.sent += 3
        f.absorb(F.socket(1, later, retransmitted: 12))
        f.tick()
        #expect(f.process(31)?.bytes.retransmitted == 5)
        #expect(f.process(17)?.bytes.retransmitted == 7)
    }

    @Test("closed sockets are listed for a while, and their bytes count for ever")
    func closedSockets() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)], closed: f.now))
        f.tick()
        #expect(f.socket(9) != nil)
        #expect(f.process(1)?.socketsOpen == 0)
        f.tick(after: 10)
        #expect(f.socket(9) == nil)
        #expect(f.process(1)?.bytes.payload.sent == 10)
    }

    @Test("a closed socket is listed from the tick that learns of it, however long ago it closed")
    func closedLongAgo() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)], closed: f.now))
        f.tick(after: 100)
        #expect(f.socket(9) != nil)
        f.tick(after: 4)
        f.absorb(F.socket(10, [F.owner(one, sent: 10)], closed: f.now))
        #expect(f.socket(9) != nil)
        f.tick(after: 2)
        #expect(f.socket(9) == nil && f.socket(10) != nil)
        f.tick(after: 6)
        #expect(f.socket(10) == nil)
    }

    @Test("a closed socket is listed for five seconds; with a long interval it is in the list of one tick, too")
    func closedWhileSlow() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)], closed: f.now))
        for _ in 1...5 {
            f.tick(after: 1)
            #expect(f.socket(9) != nil)
        }
        f.tick(after: 1)
        #expect(f.socket(9) == nil)

        f.absorb(F.socket(11, [F.owner(one, sent: 10)], closed: f.now))
        f.tick(after: 60)
        #expect(f.socket(11) != nil)
        f.tick(after: 60)
        #expect(f.socket(11) == nil)
    }

    @Test("more closed sockets than fit push the oldest out")
    func closedLimit() {
        var f = F(retention: Ledger.Retention(closedSocketLimit: .init(10, inAll: 10)))
        for cookie in 1...100 as ClosedRange<UInt64> {
            f.absorb(F.socket(cookie, [F.owner(one, sent: 1)], closed: f.now))
        }
        f.tick()
        #expect(f.snapshot.sockets?.map(\.cookie.rawValue) == Array(91...100))
        #expect(f.process(1)?.bytes.payload.sent == 100)
    }

    @Test("an ended process is listed for five minutes, then its bytes move to its group's row")
    func exited() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)], closed: f.now))
        f.absorb(.details(one, ProcessDetails(name: "app", executable: "/bin/app", uid: 0)))
        f.absorb(.exited(one, at: f.snapshot.takenAt))
        f.tick(after: 299)
        #expect(f.process(1)?.state == .exited)
        #expect(f.snapshot.exited == [])
        f.tick(after: 2)
        #expect(f.process(1) == nil)
        let row = try #require(f.snapshot.exited?.first)
        #expect(row.group == ProcessGroup(name: "app", executable: "/bin/app", uid: 0))
        #expect(row.processes == 1)
        #expect(row.bytes.payload.sent == 10)
        #expect(f.snapshot.totals.bytes.payload.sent == 10)
    }

    @Test(
        "bytes are conserved: totals = processes + exited + unowned, whatever happens",
        arguments: 0..<10 as Range<UInt64>
    )
    func conservation(seed: UInt64) {
        var random = Seeded(seed)
        var f = F(
            retention: Ledger.Retention(
                exitedProcesses: .seconds(3),
                exitedProcessLimit: .init(5, inAll: 5),
                closedSocketLimit: .init(8, inAll: 8),
                groupLimit: .init(3, inAll: 3)
            )
        )
        var sent: [UInt64: [Int32: UInt64]] = [:]
        var closed: Set<UInt64> = []
        var truth: UInt64 = 0
        for _ in 0..<2_000 {
            let cookie = UInt64.random(in: 1...60, using: &random)
            let pid = Int32.random(in: 1...30, using: &random)
            guard !closed.contains(cookie) else { continue }
            let more = UInt64.random(in: 0...1_000, using: &random)
            truth += more
            sent[cookie, default: [:]][pid, default: 0] += more
            let owners = sent[cookie, default: [:]].map {
                F.owner(F.process($0.key), sent: $0.value, name: "p\($0.key)")
            }
            let isClosing = Int.random(in: 0..<30, using: &random) == 0
            if isClosing { closed.insert(cookie) }
            f.absorb(F.socket(cookie, owners, closed: isClosing ? f.now : nil))
            if Int.random(in: 0..<10, using: &random) == 0 { f.absorb(.exited(F.process(pid), at: f.snapshot.takenAt)) }
            if Int.random(in: 0..<5, using: &random) == 0 { f.tick() }
        }
        f.tick()
        let snapshot = f.snapshot
        let listed = (snapshot.processes ?? []).reduce(0) { $0 + $1.bytes.payload.sent }
        let folded = (snapshot.exited ?? []).reduce(0) { $0 + $1.bytes.payload.sent }
        #expect(listed + folded == truth)
        #expect(snapshot.totals.bytes.payload.sent == truth)
        #expect((snapshot.exited ?? []).count <= 4)
    }

    @Test("a process is looked up once, whatever it names itself")
    func unresolved() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1, name: "sh")]), F.socket(9, [F.owner(one, sent: 2, name: "sh")]))
        #expect(f.ledger.takeUnresolved().map(\.name) == ["sh"])
        f.absorb(F.socket(10, [F.owner(one, sent: 2, name: "curl")]), F.socket(9, [F.owner(one, sent: 3, name: "sh")]))
        #expect(f.ledger.takeUnresolved().isEmpty)
    }

    @Test("details read after a process ended do not replace the known ones")
    func details() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1)]))
        f.absorb(.details(one, ProcessDetails(name: "app", executable: "/bin/app", uid: 3)))
        f.absorb(.details(one, ProcessDetails(name: "app", uid: 3)))
        f.tick()
        #expect(f.process(1)?.details.executable == "/bin/app")
    }

    @Test("once one process's details name a user, the user's later processes have the name at once")
    func userNames() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 1)]))
        f.absorb(.details(one, ProcessDetails(name: "app", uid: 0, user: "root")))
        f.absorb(F.socket(10, [F.owner(two, sent: 1)]))
        f.tick()
        #expect(f.process(2)?.details.user == "root")
    }

    @Test("an interface that starts over gives no rate")
    func interfaces() {
        var f = F()
        f.absorb(.interfaces([InterfaceUsage(name: "lo", sentBytes: 100, receivedBytes: 100)]))
        f.tick()
        f.absorb(.interfaces([InterfaceUsage(name: "lo", sentBytes: 300, receivedBytes: 200)]))
        f.tick()
        #expect(f.snapshot.interfaces?.first?.sentBytesPerSecond == 200)
        f.absorb(.interfaces([InterfaceUsage(name: "lo", sentBytes: 5, receivedBytes: 5)]))
        f.tick()
        #expect(f.snapshot.interfaces?.first?.sentBytesPerSecond == nil)
    }

    @Test("a process that gives itself a name for each socket keeps the first, until it runs another program")
    func manyNames() {
        var f = F()
        var asked = 0
        for number in UInt64(1)...10_000 {
            f.absorb(F.socket(number, [F.owner(one, sent: 1, name: "n\(number)")]))
            asked += f.ledger.takeUnresolved().count
        }
        #expect(asked == 1)
        f.tick()
        #expect(f.process(1)?.details.name == "n1")
        f.absorb(.details(one, ProcessDetails(name: "n1", executable: "/bin/app", uid: 0)))
        // After a doubt, /proc has the present name.
        f.absorb(.details(one, ProcessDetails(name: "later", executable: "/bin/app", uid: 0)))
        f.tick()
        #expect(f.process(1)?.details.name == "n1")
        f.absorb(.executed(one, Execution(name: "other", uid: 0, boottimeNanoseconds: .max)))
        #expect(f.ledger.takeUnresolved().map(\.name) == ["other"])
        f.absorb(F.socket(20_000, [F.owner(one, sent: 1, name: "new")]))
        #expect(f.ledger.takeUnresolved().isEmpty)
        f.absorb(.details(one, ProcessDetails(name: "other", executable: "/bin/other", uid: 0)))
        f.tick()
        #expect(f.process(1)?.details.name == "other")
    }

    @Test("the name that a process gave itself after it began to run a program, and before its first socket, stays")
    func nameBeforeSocket() {
        var f = F()
        var socket = F.opened(9, [F.owner(one, sent: 1, name: "own")], at: 2_000)
        f.absorb(socket, .executed(one, Execution(name: "python3", uid: 0, boottimeNanoseconds: 1_000)))
        f.tick()
        #expect(f.process(1)?.details.name == "own")
        // The socket is older than the program.
        socket = F.opened(8, [F.owner(F.process(2), sent: 1, name: "sh")], at: 2_000)
        f.absorb(socket, .executed(F.process(2), Execution(name: "curl", uid: 0, boottimeNanoseconds: 3_000)))
        f.tick()
        #expect(f.process(2)?.details.name == "curl")
    }

    @Test("a process without details is looked up again later, but no more once the process has ended")
    func askedAgain() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(one, sent: 1)]), F.socket(2, [F.owner(two, sent: 1)]))
        #expect(Set(f.ledger.takeUnresolved().map(\.identity)) == [one, two])
        f.absorb(.details(one, ProcessDetails(name: "app", uid: 0)))
        f.tick()
        #expect(f.ledger.takeUnresolved().isEmpty)
        f.tick(after: 20)
        #expect(f.ledger.takeUnresolved().map(\.identity) == [two])
        f.tick()
        #expect(f.ledger.takeUnresolved().isEmpty)
        f.absorb(.exited(two, at: Timestamp(nanosecondsSinceEpoch: 0)))
        f.tick(after: 20)
        #expect(f.ledger.takeUnresolved().isEmpty)
    }
}
