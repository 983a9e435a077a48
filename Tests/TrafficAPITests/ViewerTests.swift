import Testing
import TrafficAPI
import TrafficModel

@Suite("What a viewer may see")
struct ViewerTests {
    @Test("root, the daemon's user and members of the socket's group are administrators, others are not")
    func rule() {
        let rule = AccessRule(daemonUID: 500, group: 77)
        #expect(rule.viewer(for: PeerCredentials(uid: 0, gid: 9)) == .administrator)
        #expect(rule.viewer(for: PeerCredentials(uid: 500, gid: 9)) == .administrator)
        #expect(rule.viewer(for: PeerCredentials(uid: 3, gid: 77)) == .administrator)
        #expect(rule.viewer(for: PeerCredentials(uid: 3, gid: 9, supplementaryGroups: [1, 77])) == .administrator)
        #expect(rule.viewer(for: PeerCredentials(uid: 3, gid: 9, supplementaryGroups: [1])) == .user(3))
        let noGroup = AccessRule(daemonUID: 500, group: nil)
        #expect(noGroup.viewer(for: PeerCredentials(uid: 3, gid: 0, supplementaryGroups: [0])) == .user(3))
    }

    @Test("A user sees its own processes and their sockets, and sums over just these")
    func user() throws {
        let seen = Fixture.reading().visible(to: .user(65_534)).snapshot
        #expect(seen.processes == [Fixture.nobody])
        #expect(seen.sockets?.map(\.cookie.rawValue) == [2, 3])
        #expect(seen.sockets?.flatMap { $0.owners.map(\.identity.pid) } == [20, 20])
        #expect(seen.exited == [])
        #expect(seen.totals == Totals(bytes: Fixture.nobody.bytes, rates: Fixture.nobody.rates))
    }

    @Test("A user sees the rows of its own ended processes, and sums with them")
    func ended() {
        var snapshot = Fixture.snapshot()
        let own = ExitedUsage(
            group: ProcessGroup(name: "curl", uid: 65_534),
            processes: 2,
            bytes: ByteCounts(payload: PayloadBytes(sent: 1_000))
        )
        snapshot.exited = (snapshot.exited ?? []) + [own, ExitedUsage(group: .other(of: nil), bytes: own.bytes)]
        let seen = Reading(snapshot: snapshot).visible(to: .user(65_534)).snapshot
        #expect(seen.exited == [own])
        #expect(seen.totals.bytes == Fixture.nobody.bytes + own.bytes)
    }

    @Test("Exchanges, endpoints of other groupings and evidence are a user's own, and the network's none")
    func beyondTheSnapshot() {
        var reading = Fixture.reading()
        reading.exchanges = Fixture.exchanges
        reading.groupedEndpoints = [.host: [Fixture.root, Fixture.nobody].map { Fixture.endpoint(of: $0, "/") }]
        reading.evidence.forgottenSockets.sent[.payload] = 100
        for process in [Fixture.root, Fixture.nobody] {
            reading.evidence.forgottenSocketsOf[process.identity] = AuditTallies()
        }
        let own = reading.visible(to: .user(65_534))
        #expect(own.exchanges.map(\.process) == [Fixture.nobody.identity])
        #expect(own.groupedEndpoints[.host]?.map(\.process.uid) == [65_534])
        #expect(Array(own.evidence.forgottenSocketsOf.keys) == [Fixture.nobody.identity])
        #expect(own.evidence.forgottenSockets == AuditEvidence().forgottenSockets)
        let network = reading.visible(to: .network)
        #expect(network.exchanges == [] && network.evidence == AuditEvidence())
        #expect(reading.visible(to: .administrator) == reading)
    }

    @Test("A user without processes sees none")
    func stranger() {
        let seen = Fixture.reading().visible(to: .user(4242)).snapshot
        #expect(seen.processes == [])
        #expect(seen.sockets == [])
        #expect(seen.totals == Totals())
    }

    @Test("The network sees processes without command lines, and no sockets")
    func network() {
        let seen = Fixture.reading().visible(to: .network).snapshot
        #expect(seen.processes?.map(\.details.name) == ["sshd", "web"])
        #expect(seen.processes?.allSatisfy { $0.details.commandLine == nil } == true)
        #expect(seen.sockets == nil)
    }

    @Test("How many alerts are in force, only an administrator sees")
    func alerts() {
        var reading = Fixture.reading()
        reading.snapshot.alertsActive = 2
        #expect(reading.visible(to: .administrator).snapshot.alertsActive == 2)
        #expect(reading.visible(to: .user(0)).snapshot.alertsActive == nil)
        #expect(reading.visible(to: .network).snapshot.alertsActive == nil)
    }

    @Test("An administrator sees everything")
    func administrator() {
        #expect(Fixture.reading().visible(to: .administrator) == Fixture.reading())
    }
}
