import Foundation
import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Sums by scope and class")
struct DestinationTests {
    typealias F = LedgerFixture

    static func socket(
        _ serial: UInt64,
        _ local: String = "10.0.0.5",
        to remote: String,
        sent: UInt64 = 0,
        received: UInt64 = 0,
        transport: TransportProtocol = .tcp,
        closed: UInt64? = nil,
        pending: UInt64? = nil,
        retransmitted: UInt64 = 0,
        ports: (local: UInt16, remote: UInt16) = (80, 4711),
        state: SocketState = .established,
        others: [OwnerObservation] = []
    ) -> CaptureEvent {
        .socket(
            SocketObservation(
                cookie: SocketCookie(rawValue: serial),
                transport: transport,
                family: .ipv4,
                local: SocketAddress(address: InternetAddress(local) ?? .unspecified, port: ports.local),
                remote: SocketAddress(address: InternetAddress(remote) ?? .unspecified, port: ports.remote),
                role: .client,
                state: closed == nil ? state : .closed,
                closedBoottimeNanoseconds: closed,
                tcp: transport == .tcp ? TCPCounters(retransmittedBytes: retransmitted) : nil,
                pendingSent: pending,
                owners: [F.owner(F.process(1), sent: sent, received: received)] + others
            )
        )
    }

    static func host(_ addresses: String...) -> CaptureEvent {
        .hostAddresses(Set(addresses.compactMap { InternetAddress($0) }))
    }

    static func fixture(_ classes: String...) throws -> LedgerFixture {
        var fixture = F()
        fixture.ledger = Ledger(classes: try AddressClasses(classes))
        fixture.tick()
        return fixture
    }

    /// Beyond a user's limit a connection's scope is decided before the socket in the container is known.
    @Test("a user's connections between two ticks take a limited room, and every byte has a scope", arguments: [0, 1])
    func limit(more: UInt64) throws {
        var f = F()
        let most: UInt64 = 5
        f.ledger = Ledger(retention: .init(undecidedLimit: .init(Int(most), inAll: 100)))
        f.tick()
        for serial in 1...most + more {
            f.ledger.absorb(Self.socket(serial, to: "172.17.0.2", sent: 10, closed: 1))
        }
        f.ledger.absorb(Self.socket(99, "172.17.0.2", to: "10.0.0.5", closed: 1, ports: (4711, 80)))
        f.tick()
        let byScope = f.snapshot.totals.byScope
        #expect(byScope["same_host"]?.payload.sent == 10 * most)
        #expect(byScope["lan"]?.payload.sent ?? 0 == 10 * more)
        #expect(f.snapshot.totals.bytes.payload.sent == 10 * (most + more))
    }

    @Test("both ends of a container's connection are on the same host, in whatever order the events come")
    func container() throws {
        let events = [
            Self.socket(1, "172.18.0.2", to: "172.17.0.2", sent: 10, ports: (5000, 80)),
            Self.socket(2, "172.17.0.2", to: "172.18.0.2", received: 10, ports: (80, 5000)), Self.host("10.0.0.5"),
        ]
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            var f = try Self.fixture()
            for index in order { f.ledger.absorb(events[index]) }
            f.tick()
            #expect(f.socket(1)?.scope == .sameHost)
            #expect(f.socket(2)?.scope == .sameHost)
            #expect(f.snapshot.totals.byScope == ["same_host": counts(sent: 10, received: 10)])
        }
    }

    @Test("a connection with a container that has ended is known by both sockets")
    func goneContainer() throws {
        var f = try Self.fixture()
        f.absorb(Self.host("10.0.0.5"))
        f.absorb(Self.socket(1, to: "172.17.0.2", sent: 10, closed: f.now, ports: (80, 5000)))
        // Another port of the same address may belong to another machine.
        f.absorb(Self.socket(2, to: "172.17.0.2", sent: 100, closed: f.now, ports: (80, 5001)))
        f.absorb(Self.socket(3, "172.17.0.2", to: "10.0.0.5", received: 10, closed: f.now, ports: (5000, 80)))
        f.tick()
        #expect((1...3).map { f.socket($0)?.scope } == [.sameHost, .localArea, .sameHost])
        #expect(
            f.snapshot.totals.byScope == ["same_host": counts(sent: 10, received: 10), "lan": counts(sent: 100)]
        )
    }

    private enum Outcome: CaseIterable { case otherEnd, payload, patience, close, end }

    @Test("a connection without payload waits for its other end, for three ticks at most", arguments: Outcome.allCases)
    private func opening(_ outcome: Outcome) throws {
        var f = try Self.fixture()
        // 7 bytes that are no payload.
        func client(sent: UInt64 = 0, _ state: SocketState = .synSent, closed: UInt64? = nil) -> CaptureEvent {
            Self.socket(1, to: "172.17.0.2", sent: sent, closed: closed, retransmitted: 7, state: state)
        }
        for _ in 1...2 {
            f.absorb(client())
            f.tick()
            f.look(afterMilliseconds: 1)
            #expect(f.socket(1)?.scope == nil && f.snapshot.totals.byScope == [:])
        }
        // A restart between the two loses none of these bytes.
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint())
        switch outcome {
        case .otherEnd: f.absorb(Self.socket(2, "172.17.0.2", to: "10.0.0.5", ports: (4711, 80)), client(.established))
        case .payload: f.absorb(client(sent: 5, .established))
        case .close: f.absorb(client(closed: f.now))
        case .patience, .end: break
        }
        if outcome == .end {
            f.ledger.decideAll()
        } else if outcome == .patience {
            f.tick()
        } else {
            f.look(afterMilliseconds: 2)
        }
        let scope = outcome == .otherEnd ? SocketScope.sameHost : .localArea
        #expect(f.socket(1)?.scope == scope)
        let bytes = ByteCounts(payload: PayloadBytes(sent: outcome == .payload ? 5 : 0), retransmitted: 7)
        #expect(f.snapshot.totals.byScope[scope.rawValue] == bytes)
        // What is decided stays.
        f.absorb(Self.socket(2, "172.17.0.2", to: "10.0.0.5", ports: (4711, 80)))
        f.tick()
        #expect(f.socket(1)?.scope == scope && f.socket(2)?.scope == .sameHost)
    }

    @Test("connections whose sockets leave the list within a round, because there are too many, are known all the same")
    func flood() throws {
        var f = F(retention: Ledger.Retention(closedSocketLimit: .init(2, inAll: 2)))
        let ports = 5_000..<5_020 as Range<UInt16>
        for port in ports {
            f.absorb(Self.socket(UInt64(port), to: "172.17.0.2", sent: 3, closed: f.now, ports: (port, 80)))
        }
        for port in ports {
            let serial = UInt64(port) + 100
            f.absorb(
                Self.socket(serial, "172.17.0.2", to: "10.0.0.5", received: 3, closed: f.now, ports: (80, port))
            )
        }
        f.tick()
        #expect(f.snapshot.totals.byScope == ["same_host": counts(sent: 60, received: 60)])
    }

    @Test("a socket of another protocol is no other end")
    func protocols() throws {
        var f = try Self.fixture()
        f.absorb(Self.socket(1, to: "172.17.0.2", sent: 3))
        f.absorb(Self.socket(2, "172.17.0.2", to: "10.0.0.5", sent: 3, transport: .udp, ports: (4711, 80)))
        f.absorb(Self.socket(3, "10.0.0.6", to: "172.17.0.2", sent: 3))
        f.absorb(Self.socket(4, "172.17.0.2", to: "10.0.0.6", sent: 3, transport: .mptcp, ports: (4711, 80)))
        f.tick()
        #expect((1...4).map { f.socket($0)?.scope } == [.localArea, .localArea, .sameHost, .sameHost])
    }

    @Test("in one network namespace such sockets are those of a proxy, and in two those of a container")
    func proxy() throws {
        var f = try Self.fixture()
        for (serial, namespaces) in [(1, (7, 7)), (3, (7, 8)), (5, (7, 0))] as [(UInt64, (UInt32, UInt32))] {
            let port = UInt16(5_000 + serial)
            let ends = [
                Self.socket(serial, "10.0.0.5", to: "198.51.100.7", sent: 1, ports: (80, port)),
                Self.socket(serial + 1, "198.51.100.7", to: "10.0.0.5", sent: 1, ports: (port, 80)),
            ]
            for (event, namespace) in zip(ends, [namespaces.0, namespaces.1]) {
                guard case .socket(var socket) = event else { continue }
                socket.networkNamespace = namespace
                f.absorb(.socket(socket))
            }
        }
        f.tick()
        let scopes = (1...6).map { f.socket($0)?.scope }
        #expect(scopes == [.internet, .localArea, .sameHost, .sameHost, .sameHost, .sameHost])
    }

    @Test("sockets that wait over several ticks take their user's room, and give it back")
    func roomOverTicks() throws {
        var f = F()
        let retention = Ledger.Retention(undecidedLimit: .init(3, inAll: 5))
        f.ledger = Ledger(retention: retention)
        f.tick()
        func open(_ serial: UInt64, user: UInt32) -> CaptureEvent {
            guard case .socket(var socket) = Self.socket(serial, to: "8.8.8.8", retransmitted: 1) else {
                return .loss(.init())
            }
            socket.owners = []
            socket.uid = user
            return .socket(socket)
        }
        func isUndecided(_ serial: UInt64) -> Bool { f.socket(serial)?.scope == nil }
        for serial in 1...3 as ClosedRange<UInt64> { f.absorb(open(serial, user: 1)) }
        f.tick()
        // The user's room is full.
        f.absorb(open(4, user: 1), open(5, user: 2), open(6, user: 2))
        #expect((1...6).map(isUndecided) == [true, true, true, false, true, true])
        // That of all is.
        f.absorb(open(7, user: 3))
        #expect(!isUndecided(7))
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint(), retention: retention)
        f.tick()
        f.tick()
        #expect((1...6).map(isUndecided) == [false, false, false, false, true, true])
        f.absorb(open(8, user: 1), open(9, user: 1), open(10, user: 1), open(11, user: 1))
        #expect((8...11).map(isUndecided) == [true, true, true, false])
        for _ in 1...3 { f.tick() }
        #expect(!(1...11).contains(where: isUndecided))
        #expect(f.snapshot.totals.byScope == ["internet": ByteCounts(retransmitted: 11)])
    }

    @Test("the other end is found however long it is known, also after a restart, and no longer when it has left")
    func laterEnd() throws {
        var f = try Self.fixture()
        func server(closed: UInt64? = nil) -> CaptureEvent {
            Self.socket(1, "172.17.0.2", to: "172.17.0.9", received: 1, closed: closed, ports: (80, 5000))
        }
        func client(_ serial: UInt64) -> CaptureEvent {
            Self.socket(serial, "172.17.0.9", to: "172.17.0.2", sent: 1, ports: (5000, 80))
        }
        f.absorb(server())
        for _ in 0..<5 { f.tick() }
        f.absorb(client(2))
        f.tick()
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint())
        f.absorb(client(3))
        f.tick()
        #expect((1...3).map { f.socket($0)?.scope } == [.localArea, .sameHost, .sameHost])
        f.absorb(server(closed: f.now))
        for _ in 0..<20 { f.tick() }
        #expect(f.socket(1) == nil)
        f.absorb(client(4))
        f.tick()
        #expect(f.socket(4)?.scope == .localArea)
    }

    @Test("a UDP socket that changes its remote address is no longer the other end of the old one")
    func changedEnd() throws {
        var f = try Self.fixture()
        f.absorb(Self.socket(1, "172.17.0.2", to: "172.17.0.9", sent: 1, transport: .udp, ports: (53, 5000)))
        f.absorb(Self.socket(1, "172.17.0.2", to: "172.17.0.8", sent: 2, transport: .udp, ports: (53, 5000)))
        f.tick()
        f.absorb(Self.socket(2, "172.17.0.9", to: "172.17.0.2", sent: 4, transport: .udp, ports: (5000, 53)))
        f.absorb(Self.socket(3, "172.17.0.8", to: "172.17.0.2", sent: 8, transport: .udp, ports: (5000, 53)))
        f.tick()
        #expect((2...3).map { f.socket($0)?.scope } == [.localArea, .sameHost])
    }

    @Test("bytes stay in the scope that they were credited to, and so does their socket")
    func sticky() throws {
        var f = try Self.fixture()
        f.absorb(Self.host("10.0.0.5"), Self.socket(1, to: "172.17.0.2", sent: 10))
        f.tick()
        f.absorb(Self.host("10.0.0.5", "172.17.0.2"), Self.socket(1, to: "172.17.0.2", sent: 15))
        f.absorb(Self.socket(2, to: "172.17.0.2", sent: 100))
        f.tick()
        f.absorb(Self.host("10.0.0.5"), Self.socket(2, to: "172.17.0.2", sent: 101))
        f.tick()
        #expect(f.socket(1)?.scope == .localArea)
        #expect(f.socket(2)?.scope == .sameHost)
        #expect(f.snapshot.totals.byScope == ["lan": counts(sent: 15), "same_host": counts(sent: 101)])
    }

    @Test("a socket that connects to another address leaves its earlier bytes in their scope and class")
    func reconnect() throws {
        var f = try Self.fixture("dns=8.8.8.8", "own=10.0.0.0/8")
        let hops: [(String, UInt64)] = [("0.0.0.0", 1), ("8.8.8.8", 11), ("10.9.9.9", 111), ("0.0.0.0", 1111)]
        for (remote, sent) in hops {
            f.absorb(Self.socket(1, to: remote, sent: sent, transport: .udp))
            // The remote address changes within a round, too.
            if remote == "10.9.9.9" { f.absorb(Self.socket(1, to: "8.8.8.8", sent: sent + 5, transport: .udp)) }
            f.tick()
        }
        let totals = f.snapshot.totals
        #expect(totals.byScope == ["internet": counts(sent: 15), "lan": counts(sent: 100)])
        #expect(totals.byClass == ["dns": counts(sent: 15), "own": counts(sent: 100)])
        #expect(totals.bytes.payload.sent == 1111)
        #expect(f.socket(1)?.scope == nil)
        #expect(f.socket(1)?.addressClass == nil)
    }

    @Test("the last bytes of a TCP connection that was dissolved count for its old remote address")
    func dissolved() throws {
        var f = try Self.fixture("own=10.0.0.0/8")
        f.absorb(Self.socket(1, to: "10.9.9.9", sent: 10))
        f.tick()
        f.absorb(Self.socket(1, to: "0.0.0.0", sent: 25))
        f.tick()
        #expect(f.snapshot.totals.byClass == ["own": counts(sent: 25)])
        #expect(f.socket(1)?.scope == .localArea)
    }

    @Test("classes are listed with 0 from the start; where none is defined there is no list")
    func zero() throws {
        #expect(try Self.fixture("a=10.0.0.0/8", "b=::/0").snapshot.totals.byClass == ["a": counts(), "b": counts()])
        #expect(try Self.fixture().snapshot.totals.byClass == nil)
    }

    @Test("the remote address decides the class, whatever the scope; an address outside all blocks has none")
    func classes() throws {
        var f = try Self.fixture("paid=0.0.0.0/0", "own=10.0.0.0/8", "v6=2001:db8::/32")
        func other(sent: UInt64, received: UInt64) -> [OwnerObservation] {
            [F.owner(F.process(2), sent: sent, received: received)]
        }
        f.absorb(
            Self.socket(1, to: "8.8.8.8", sent: 6, received: 2, others: other(sent: 30, received: 0)),
            Self.socket(2, to: "10.1.1.1", sent: 10, received: 20),
            Self.socket(3, to: "10.0.0.5", sent: 100, received: 200),
            Self.socket(4, "::1", to: "2001:db9::1", sent: 1_000, received: 2_000),
            Self.socket(5, "127.0.0.1", to: "127.0.0.1", sent: 10_000)
        )
        f.tick()
        // Each of the two owners has moved something since, and the bytes of both are in the socket's class.
        f.absorb(Self.socket(1, to: "8.8.8.8", sent: 10, received: 2, others: other(sent: 31, received: 5)))
        f.tick()
        #expect(
            f.snapshot.totals.byClass == [
                "paid": counts(sent: 10_041, received: 7), "own": counts(sent: 110, received: 220), "v6": counts(),
            ]
        )
        #expect((1...5).map { f.socket($0)?.addressClass } == ["paid", "own", "own", nil, "paid"])
    }

    @Test("pending bytes count in the socket's scope and class until they become payload")
    func pending() throws {
        var f = try Self.fixture("own=10.0.0.0/8")
        f.absorb(Self.socket(1, to: "10.1.1.1", sent: 1, pending: 50))
        f.tick()
        #expect(f.snapshot.totals.byScope["lan"]?.pendingSent == 50)
        #expect(f.snapshot.totals.byClass?["own"]?.pendingSent == 50)
        f.tick()
        #expect(f.snapshot.totals.byClass?["own"]?.pendingSent == 50)
        f.absorb(Self.socket(1, to: "10.1.1.1", sent: 51, closed: f.now))
        f.tick()
        #expect(f.snapshot.totals.byScope == ["lan": counts(sent: 51)])
        #expect(f.snapshot.totals.byClass == ["own": counts(sent: 51)])
    }

    @Test("retransmissions are summed too")
    func retransmissions() throws {
        var f = try Self.fixture("own=10.0.0.0/8")
        f.absorb(Self.socket(1, to: "10.1.1.1", sent: 1, retransmitted: 7))
        f.tick()
        f.absorb(Self.socket(1, to: "10.1.1.1", sent: 1, retransmitted: 9))
        f.tick()
        #expect(f.snapshot.totals.byClass?["own"]?.retransmitted == 9)
        #expect(f.snapshot.totals.byScope["lan"]?.retransmitted == f.snapshot.totals.bytes.retransmitted)
    }

    @Test("sockets that came and went within a round count, listed or not")
    func shortLived() throws {
        var f = F(retention: Ledger.Retention(closedSocketLimit: .init(2, inAll: 2)))
        for serial in 1...100 as ClosedRange<UInt64> {
            f.absorb(Self.socket(serial, to: "10.1.1.1", sent: 3, closed: f.now))
        }
        f.tick()
        #expect(f.snapshot.sockets?.count == 2)
        #expect(f.snapshot.totals.byScope == ["lan": counts(sent: 300)])
    }

    @Test("each byte of a connected socket is in one scope, whatever happens", arguments: 0..<20 as Range<UInt64>)
    func conservation(seed: UInt64) throws {
        var random = Seeded(seed)
        let remotes = ["8.8.8.8", "10.1.1.1", "172.17.0.2", "127.0.0.1", "2001:db8::1", "10.0.0.5"]
        let classes = try AddressClasses(["all=0.0.0.0/0,::/0"])
        var events: [CaptureEvent] = []
        var sockets: [UInt64: (remote: String, sent: UInt64)] = [:]
        var closed: Set<UInt64> = []
        var truth: UInt64 = 0
        for _ in 0..<3_000 {
            let serial = UInt64.random(in: 1...60, using: &random)
            guard !closed.contains(serial) else { continue }
            var socket = sockets[serial] ?? (remotes.randomElement(using: &random) ?? "", 0)
            if Int.random(in: 0..<8, using: &random) == 0 {
                socket.remote = remotes.randomElement(using: &random) ?? ""
            }
            let more = UInt64.random(in: 0...1_000, using: &random)
            socket.sent += more
            truth += more
            sockets[serial] = socket
            let isClosing = Int.random(in: 0..<40, using: &random) == 0
            if isClosing { closed.insert(serial) }
            events.append(Self.socket(serial, to: socket.remote, sent: socket.sent, closed: isClosing ? 1 : nil))
            if Int.random(in: 0..<20, using: &random) == 0 {
                events.append(
                    .hostAddresses(Set(remotes.filter { _ in .random(using: &random) }.compactMap { .init($0) }))
                )
            }
            if Int.random(in: 0..<5, using: &random) == 0 {
                let second = UInt64(events.count + 2_000)
                let wall = Timestamp(nanosecondsSinceEpoch: Int64(second) * 1_000_000_000)
                events.append(.tick(at: wall, boottimeNanoseconds: second * 1_000_000_000))
            }
        }
        func totals(_ events: [CaptureEvent]) -> Totals {
            var f = F()
            f.ledger = Ledger(retention: ReplayTests.retention, classes: classes)
            for event in events { f.ledger.absorb(event) }
            f.ledger.absorb(.tick(at: f.snapshot.takenAt, boottimeNanoseconds: .max))
            return f.snapshot.totals
        }
        let once = totals(events)
        #expect(once.bytes.payload.sent == truth)
        #expect(once.byScope.values.reduce(0) { $0 + $1.payload.sent } == truth)
        #expect(once.byClass?["all"]?.payload.sent == truth)
        #expect(once.byScope.count == 4)
        // The same events give the same totals, and an event that comes twice adds nothing.
        #expect(totals(events) == once)
        #expect(totals(events.flatMap { [$0, $0] }) == once)
    }
}

private func counts(sent: UInt64 = 0, received: UInt64 = 0) -> ByteCounts {
    ByteCounts(payload: PayloadBytes(sent: sent, received: received), retransmitted: 0)
}
