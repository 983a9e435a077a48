import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Whom processes reach")
struct ContactTests {
    typealias F = LedgerFixture

    private static let ports: ClosedRange<UInt16> = 32_768...60_999

    private static func socket(
        _ serial: UInt64,
        to remote: String,
        _ role: SocketRole = .client,
        port: UInt16 = 40_000,
        pid: Int32 = 1,
        uid: UInt32 = 0,
        sent: UInt64 = 10,
        local: String = "10.0.0.5",
        closed: UInt64? = nil
    ) -> CaptureEvent {
        var owner = F.owner(F.process(pid), sent: sent)
        owner.uid = uid
        return .socket(
            SocketObservation(
                cookie: SocketCookie(rawValue: serial),
                transport: role == .peer ? .udp : .tcp,
                family: .ipv4,
                local: SocketAddress(address: InternetAddress(local) ?? .unspecified, port: port),
                remote: SocketAddress(address: InternetAddress(remote) ?? .unspecified, port: 443),
                role: role,
                state: closed == nil ? .established : .closed,
                closedBoottimeNanoseconds: closed,
                owners: [owner]
            )
        )
    }

    private static func details(_ pid: Int32, _ name: String, uid: UInt32 = 0) -> CaptureEvent {
        .details(F.process(pid), ProcessDetails(name: name, uid: uid))
    }

    private static func fixture(from ports: ClosedRange<UInt16>? = Self.ports) -> F {
        var f = F()
        f.ledger.watchContacts(from: ports)
        f.absorb(.hostAddresses([InternetAddress("10.0.0.5") ?? .unspecified]))
        return f
    }

    private static func contacts(_ sums: ContactSums) -> [String: UInt64] {
        Dictionary(uniqueKeysWithValues: sums.bytes.map { ("\($0.key.process.name) \($0.key.destination)", $0.value) })
    }

    @Test("a socket that connects to one address and then moves bytes to another has reached the other alone")
    func reconnected() {
        for serial in 1...20 as ClosedRange<UInt64> {
            var f = Self.fixture()
            f.absorb(Self.socket(serial, to: "192.0.2.1", .peer, sent: 0), Self.details(1, "app"))
            f.tick()
            // The first address is not decided yet: no payload has moved.
            f.absorb(Self.socket(serial, to: "198.51.100.7", .peer, sent: 5))
            f.tick()
            f.tick()
            f.tick()
            #expect(Self.contacts(f.ledger.takeContacts()) == ["app 198.51.100.0/24": 5])
        }
    }

    @Test("the bytes of a network are those of its addresses, each once, by process group")
    func networks() {
        var f = Self.fixture()
        f.absorb(Self.socket(1, to: "192.0.2.1"), Self.socket(2, to: "192.0.2.250", sent: 5))
        f.absorb(Self.socket(3, to: "198.51.100.7", pid: 2), Self.socket(4, to: "2001:db8:1:2::3", sent: 7))
        f.absorb(Self.socket(5, to: "2001:db8:1:ffff::3", sent: 1), Self.socket(6, to: "2001:db8:2::3", sent: 2))
        f.absorb(Self.details(1, "app"), Self.details(2, "other"))
        f.tick()
        #expect(
            Self.contacts(f.ledger.takeContacts()) == [
                "app 192.0.2.0/24": 15, "other 198.51.100.0/24": 10, "app 2001:db8:1::/48": 8, "app 2001:db8:2::/48": 2,
            ]
        )
        // What was taken is not taken again; what moves later has only its growth.
        #expect(f.ledger.takeContacts() == ContactSums())
        f.absorb(Self.socket(2, to: "192.0.2.250", sent: 9))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["app 192.0.2.0/24": 4])
    }

    @Test("only connections that this end began, and where nobody says that, only those from a client's port")
    func roles() {
        var f = Self.fixture()
        f.absorb(
            Self.socket(1, to: "192.0.2.1", .client, port: 80),
            Self.socket(2, to: "198.51.100.1", .server),
            Self.socket(3, to: "203.0.113.1", .peer, port: 32_768),
            Self.socket(4, to: "203.0.114.1", .peer, port: 60_999),
            Self.socket(5, to: "203.0.115.1", .peer, port: 32_767),
            Self.socket(6, to: "203.0.116.1", .peer, port: 61_000),
            Self.socket(7, to: "203.0.117.1", .client, sent: 0),
            Self.details(1, "app")
        )
        f.tick()
        let networks = ["app 192.0.2.0/24", "app 203.0.113.0/24", "app 203.0.114.0/24"]
        #expect(Self.contacts(f.ledger.takeContacts()).keys.sorted() == networks)
    }

    @Test("what stays on this host is no destination, also if that is known only later")
    func near() {
        var f = Self.fixture()
        f.absorb(Self.socket(1, to: "127.0.0.1"), Self.socket(2, to: "172.17.0.2"), Self.socket(3, to: "192.0.2.1"))
        f.absorb(Self.details(1, "app"))
        f.absorb(.hostAddresses(Set(["10.0.0.5", "172.17.0.2"].compactMap { InternetAddress($0) })))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["app 192.0.2.0/24": 10])
        // Their places are free again.
        for serial in 0..<UInt64(Contact.sampled.ofUser) {
            f.absorb(Self.socket(100 + serial, to: "10.\(1 + serial / 256).\(serial % 256).1"))
        }
        f.tick()
        #expect(f.ledger.takeContacts().lost == 0)
    }

    @Test("a socket that stays on this host takes nothing from another user's socket to the same address")
    func namespaces() {
        var f = Self.fixture()
        // Sockets to themselves, in a network namespace whose interface has the address.
        let near = Self.socket(9, to: "192.0.2.1", pid: 2, uid: 7, local: "192.0.2.1")
        f.absorb(Self.socket(1, to: "192.0.2.1"), near)
        f.absorb(Self.details(1, "app"), Self.details(2, "other", uid: 7))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["app 192.0.2.0/24": 10])
        // Also where the first is decided already.
        f.absorb(Self.socket(1, to: "192.0.2.1", sent: 15))
        f.absorb(Self.socket(10, to: "192.0.2.1", pid: 2, uid: 7, local: "192.0.2.1"))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["app 192.0.2.0/24": 5])
    }

    @Test("a process that the daemon does not know yet comes later, and one that is gone by then is counted")
    func unknown() {
        var f = Self.fixture()
        f.absorb(Self.socket(1, to: "192.0.2.1"))
        f.tick()
        #expect(f.ledger.takeContacts() == ContactSums())
        f.absorb(Self.details(1, "late"))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["late 192.0.2.0/24": 10])
        // Folded before the sample.
        f.absorb(Self.socket(2, to: "192.0.2.1", pid: 2), Self.details(2, "gone"))
        f.absorb(.exited(F.process(2), at: Timestamp(nanosecondsSinceEpoch: 0)))
        f.tick(after: 400)
        f.tick(after: 400)
        #expect(f.ledger.takeContacts() == ContactSums(lost: 1))
    }

    @Test("a user has a limited number of addresses, others have theirs, and what exceeds it is counted")
    func limits() {
        var f = Self.fixture()
        f.absorb(Self.details(1, "crawler", uid: 7), Self.details(2, "app", uid: 8))
        for serial in 0..<UInt64(Contact.sampled.ofUser + 3) {
            f.absorb(Self.socket(1 + serial, to: "10.\(1 + serial / 256).\(serial % 256).1", uid: 7))
        }
        // Another socket to an address with a place needs none.
        f.absorb(Self.socket(90_000, to: "10.1.0.1", uid: 7))
        f.absorb(Self.socket(90_001, to: "192.0.2.1", pid: 2, uid: 8))
        f.absorb(Self.details(1, "crawler", uid: 7), Self.details(2, "app", uid: 8))
        f.tick()
        let sums = f.ledger.takeContacts()
        #expect(sums.lost == 3 && sums.bytes.count == Contact.sampled.ofUser + 1)
        #expect(Self.contacts(sums)["crawler 10.1.0.0/24"] == 20 && Self.contacts(sums)["app 192.0.2.0/24"] == 10)
        f.absorb(Self.socket(90_002, to: "10.99.0.1", uid: 7))
        f.tick()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["crawler 10.99.0.0/24": 10])
    }

    @Test("without a rule nothing is collected, and nothing of it is in a checkpoint")
    func silence() {
        var f = Self.fixture(from: nil)
        f.absorb(Self.socket(1, to: "192.0.2.1"), Self.details(1, "app"))
        f.tick()
        #expect(f.ledger.takeContacts() == ContactSums())
        f.ledger.watchContacts(from: Self.ports)
        f.absorb(Self.socket(1, to: "192.0.2.1", sent: 12))
        f.tick()
        let before = f.ledger.checkpoint()
        #expect(Self.contacts(f.ledger.takeContacts()) == ["app 192.0.2.0/24": 2])
        #expect(f.ledger.checkpoint() == before)
        f.absorb(Self.socket(1, to: "192.0.2.1", sent: 13))
        f.ledger.watchContacts(from: nil)
        f.ledger.watchContacts(from: Self.ports)
        #expect(f.ledger.takeContacts() == ContactSums())
    }
}
