import TestSupport
import Testing
import TrafficAudit
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Which sockets a snapshot lists")
struct ListedSocketTests {
    typealias F = LedgerFixture

    private static func owner(_ user: UInt32, sent: UInt64) -> OwnerObservation {
        OwnerObservation(
            identity: F.process(Int32(user)),
            name: "app",
            uid: user,
            payload: PayloadBytes(sent: sent, received: 0)
        )
    }

    /// Users 1, 2 and 3 have 8, 5 and 2 open sockets. The socket with cookie 100 × user + n sends n bytes.
    private static func fixture(_ limit: Ledger.Retention.Limit) -> F {
        var f = F(retention: Ledger.Retention(openSocketLimit: limit))
        for (user, count) in [(1, 8), (2, 5), (3, 2)] as [(UInt64, UInt64)] {
            for n in 1...count { f.absorb(F.socket(100 * user + n, [Self.owner(UInt32(user), sent: n)])) }
        }
        f.tick()
        f.tick()  // now none is moving
        return f
    }

    @Test("At a user's limit all are listed; beyond it those that move least are not")
    func ofUser() {
        #expect(Self.fixture(.init(8, inAll: 100)).snapshot.socketsUnlisted == nil)
        var f = Self.fixture(.init(4, inAll: 100))
        #expect(f.cookies == [105, 106, 107, 108, 202, 203, 204, 205, 301, 302])
        #expect(f.snapshot.socketsUnlisted == 5)
        // A socket that moves has a place before those that have moved more.
        f.absorb(F.socket(101, [Self.owner(1, sent: 2)]))
        #expect(f.cookies.prefix(4) == [101, 106, 107, 108])
        // Closed sockets are listed beside the open ones.
        f.absorb(F.socket(102, [Self.owner(1, sent: 2)], closed: f.now))
        #expect(f.cookies.prefix(5) == [101, 102, 106, 107, 108])
        #expect(f.snapshot.socketsUnlisted == 4)
    }

    @Test("Beyond the limit for all, the users with most lose places")
    func inAll() {
        let f = Self.fixture(.init(8, inAll: 8))
        #expect(f.cookies == [106, 107, 108, 203, 204, 205, 301, 302])
        #expect(f.snapshot.socketsUnlisted == 7)
    }

    @Test("What is not listed is counted: by processes, in totals and in audits")
    func counted() throws {
        let (whole, part) = (Self.fixture(.init(100, inAll: 100)).reading, Self.fixture(.init(3, inAll: 6)).reading)
        let (all, some) = (whole.snapshot, part.snapshot)
        #expect(some.sockets?.count == 6 && some.socketsUnlisted == 9)
        #expect(some.processes == all.processes)
        #expect(some.totals == all.totals)
        #expect(try AuditReport(of: .host, in: part).sections == AuditReport(of: .host, in: whole).sections)
        let audit = try AuditReport(of: .process(1), in: part)
        #expect(try audit.sections == AuditReport(of: .process(1), in: whole).sections)
    }
}

extension LedgerFixture {
    fileprivate var cookies: [UInt64] { self.snapshot.sockets?.map(\.cookie.rawValue).sorted() ?? [] }
}
