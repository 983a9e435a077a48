import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficLimits
import TrafficModel

@Suite("Rules about new destinations")
struct DestinationTests {
    private static let week = 604_800.0
    private static let far = Contact(process: Simulation.app, destination: "192.0.2.0/24")

    private static func rule(_ learning: Double = Self.week, of filter: String = "") throws -> AlertRule {
        try AlertRule(.newDestination(learningSeconds: learning), named: "new", of: filter)
    }

    private static func user(_ uid: UInt32) -> String? { uid == 1_000 ? "web" : nil }

    /// A book, and samples for it one after the other.
    private struct Watched {
        var book = AlertBook()
        var now = 0.0

        init(_ rules: AlertRule...) { _ = self.book.configure(rules) }

        mutating func sample(
            seconds: Double = 5,
            lost: UInt64 = 0,
            _ contacts: [Contact: UInt64] = [:],
            endpoints: [ServiceEndpoint: EndpointCounts] = [:]
        ) -> [AlertChange] {
            self.now += seconds
            let sample = AlertSample(
                takenAt: Simulation.time(self.now),
                seconds: seconds,
                endpoints: endpoints,
                contacts: ContactSums(bytes: contacts, lost: lost)
            )
            return self.book.add(sample, userName: DestinationTests.user)
        }

        mutating func answer(_ answer: ContactAnswer, _ contact: Contact = DestinationTests.far) -> [AlertChange] {
            self.book.take(answer, of: contact, userName: DestinationTests.user)
        }

        mutating func new(since: Double, _ contact: Contact = DestinationTests.far) -> [AlertChange] {
            self.answer(.new(groupSince: Simulation.time(since)), contact)
        }
    }

    @Test("a new contact of a group that was learned for so long raises an alert, and one a moment earlier does not")
    func learning() throws {
        for (first, isAlert) in [(10 - Self.week, true), (10.001 - Self.week, false)] {
            var watched = Watched(try Self.rule())
            #expect(watched.sample() == [] && watched.book.question == [])
            #expect(watched.sample([Self.far: 70]) == [] && watched.book.question == [Self.far])
            #expect(watched.book.alerts.isEmpty)
            let changes = watched.new(since: first)
            #expect(changes.count == (isAlert ? 1 : 0) && watched.book.alerts.count == changes.count)
            #expect(watched.book.question == [])
            // It is known from now on.
            #expect(watched.sample([Self.far: 1]) == [] && watched.book.question == [])
            guard isAlert else { continue }
            let alert = try #require(watched.book.alerts.first)
            #expect(
                alert.process == Simulation.app && alert.destination == "192.0.2.0/24" && alert.kind == .newDestination
            )
            #expect(alert.since == Simulation.time(5) && alert.bytes == 71 && alert.bytesPerSecond == 7.1)
            #expect(alert.role == nil && alert.host == nil && alert.route == nil)
            let text = "new: app of user 1000 to 192.0.2.0/24 since 2027-01-15T08:00:05.000Z: 71 bytes so far"
            #expect(alert.description.hasPrefix(text), "\(alert.description)")
            let bits = alert.naming { $0 == 1_000 ? "app" : nil }.text(inBits: true)
            #expect(
                bits.hasPrefix("new: app of user app to ") && bits.contains(" 568 bits so far, 56.8 bits/s"),
                "\(bits)"
            )
        }
    }

    @Test("what moves while history is asked counts, and a contact that history knows is none")
    func waiting() throws {
        var watched = Watched(try Self.rule())
        _ = watched.sample([Self.far: 70])
        _ = watched.sample([Self.far: 5])
        _ = watched.sample()
        #expect(watched.book.question == [Self.far])
        guard case .began(let alert)? = watched.new(since: -Self.week).first else {
            Issue.record("no alert")
            return
        }
        #expect(alert.bytes == 75 && alert.since == Simulation.time(0) && alert.bytesPerSecond == 5)
        let known = Contact(process: Simulation.app, destination: "api.example")
        _ = watched.sample([known: 5])
        #expect(watched.answer(.known, known) == [] && watched.book.alerts.count == 1)
        // An answer that comes twice changes nothing.
        #expect(watched.new(since: -Self.week) == [] && watched.book.alerts.count == 1)
    }

    @Test("an alert ends after an hour, and the contact is asked about again on the next day alone")
    func ending() throws {
        var watched = Watched(try Self.rule())
        _ = watched.sample([Self.far: 70])
        _ = watched.new(since: -Self.week)
        #expect(watched.sample(seconds: 3_595) == [] && watched.book.alerts.count == 1)
        let changes = watched.sample(seconds: 5, [Self.far: 2])
        guard changes.count == 1, case .ended(let alert) = changes[0] else {
            Issue.record("\(changes)")
            return
        }
        #expect(alert.bytes == 72 && watched.book.alerts.isEmpty && watched.book.question == [])
        // The simulation begins at 8:00 UTC.
        _ = watched.sample(seconds: 57_600 - watched.now - 5, [Self.far: 1])
        #expect(watched.book.question == [])
        _ = watched.sample(seconds: 5, [Self.far: 1])
        #expect(watched.book.question == [Self.far])
    }

    @Test("only groups of a rule's filter are asked about, and each rule has its own time of learning")
    func rules() throws {
        let short = try AlertRule(.newDestination(learningSeconds: 3_600), named: "short", of: "user:web")
        var watched = Watched(try Self.rule(of: "process:app"), short)
        let other = Contact(process: ProcessGroup(name: "rsync", uid: 0), destination: "192.0.2.0/24")
        _ = watched.sample([Self.far: 70, other: 8])
        #expect(watched.book.question == [Self.far])
        #expect(watched.new(since: -7_200).map(\.alert.rule) == ["short"])
        #expect(watched.book.alerts.first?.match == "user:web")
        // Each rule judges those of its own filter alone.
        let stranger = Contact(process: ProcessGroup(name: "curl", uid: 1_000), destination: "192.0.2.0/24")
        _ = watched.sample([stranger: 1])
        #expect(watched.new(since: -2 * Self.week, stranger).map(\.alert.rule) == ["short"])
        // A rule that stays goes on, and alerts of the other one end.
        let changes = watched.book.configure([short, try Self.rule(1_000_000)])
        #expect(changes == [] && watched.book.alerts.count == 2)
        #expect(watched.book.configure([]).count == 2 && watched.book.alerts.isEmpty)
        #expect(watched.sample([other: 8]) == [] && watched.book.question == [])
    }

    @Test("hosts that clients report are destinations, and this host, servers and the rest beyond a limit are none")
    func hosts() throws {
        var watched = Watched(try Self.rule())
        func endpoint(_ role: EndpointRole, _ host: String, _ route: String = "/") -> ServiceEndpoint {
            ServiceEndpoint(process: Simulation.app, role: role, host: host, route: route)
        }
        let counts = EndpointCounts(requests: 1, sent: MessageParts(rest: 40), received: MessageParts(body: 2))
        _ = watched.sample(
            endpoints: [
                endpoint(.client, "api.example"): counts, endpoint(.client, "api.example", "/b"): counts,
                endpoint(.server, "own.example"): counts, endpoint(.client, "localhost"): counts,
                endpoint(.client, "127.0.0.1"): counts, endpoint(.client, EndpointUsage.other): counts,
            ]
        )
        let api = Contact(process: Simulation.app, destination: "api.example")
        #expect(watched.book.question == [api])
        #expect(watched.new(since: -Self.week, api).map(\.alert.bytes) == [84])
    }

    @Test("the new destinations of a user beyond the limit add up in one alert, which lasts as long as its last one")
    func limits() throws {
        let most = try #require(AlertBook.limits.first?.user).magnitude
        var watched = Watched(try Self.rule())
        func reach(_ numbers: Range<Int>, uid: UInt32) -> [AlertChange] {
            let group = ProcessGroup(name: "p", uid: uid)
            let contacts = numbers.map { Contact(process: group, destination: "d\($0)") }
            var changes = watched.sample(Dictionary(uniqueKeysWithValues: contacts.map { ($0, 10) }))
            for contact in contacts { changes += watched.new(since: -Self.week, contact) }
            return changes
        }
        #expect(reach(0..<Int(most), uid: 7).count == Int(most))
        #expect(reach(1_000..<1_003, uid: 7).map(\.alert.destination) == [EndpointUsage.other])
        let other = try #require(watched.book.alerts.first { $0.destination == EndpointUsage.other })
        #expect(other.process == .other(of: 7) && other.bytes == 30)
        #expect(reach(0..<1, uid: 8).map(\.alert.process?.uid) == [8])
        _ = watched.sample(seconds: 3_000)
        #expect(reach(2_000..<2_001, uid: 7) == [])
        #expect(watched.sample(seconds: 700).count == Int(most) + 1)
        #expect(watched.book.alerts.map(\.destination) == [EndpointUsage.other])
        #expect(watched.sample(seconds: 3_000).count == 1 && watched.book.alerts.isEmpty)
        // Room comes again.
        #expect(reach(3_000..<3_000 + Int(most), uid: 7).allSatisfy { $0.alert.destination != EndpointUsage.other })
    }

    @Test("contacts beyond the limit of a user are not asked about, and each is counted")
    func manyContacts() throws {
        var watched = Watched(try Self.rule())
        let (crawler, stranger) = (ProcessGroup(name: "crawler", uid: 7), ProcessGroup(name: "p", uid: 8))
        for start in stride(from: 0, to: Contact.learned.ofUser, by: 100) {
            let contacts = (start..<start + 100).map { Contact(process: crawler, destination: "d\($0)") }
            _ = watched.sample(Dictionary(uniqueKeysWithValues: contacts.map { ($0, 1) }))
            let question = watched.book.question
            #expect(Set(question) == Set(contacts))
            for contact in question { _ = watched.answer(.known, contact) }
        }
        #expect(watched.book.takeLost() == 0)
        let more = Contact(process: crawler, destination: "more")
        let other = Contact(process: stranger, destination: "more")
        _ = watched.sample(lost: 4, [more: 1, other: 1])
        #expect(watched.book.question == [other] && watched.book.takeLost() == 5 && watched.book.takeLost() == 0)
        // Nor has history room for it.
        #expect(watched.answer(.noRoom, other) == [] && watched.book.alerts.isEmpty && watched.book.takeLost() == 1)
    }

    @Test("a question has a hundred contacts at most, and the rest comes next")
    func questions() throws {
        var watched = Watched(try Self.rule())
        let contacts = (0..<150).map { Contact(process: Simulation.app, destination: "d\($0)") }
        _ = watched.sample(Dictionary(uniqueKeysWithValues: contacts.map { ($0, 1) }))
        let first = watched.book.question
        #expect(first.count == 100)
        for contact in first { _ = watched.answer(.known, contact) }
        #expect(Set(watched.book.question).union(first) == Set(contacts) && watched.book.question.count == 50)
    }

    @Test("samples that are joined have as many contacts as one may have")
    func joined() {
        func sample(_ numbers: Range<Int>, uid: UInt32 = 7) -> AlertSample {
            let group = ProcessGroup(name: "p", uid: uid)
            let bytes = numbers.map { (Contact(process: group, destination: "d\($0)"), 1 as UInt64) }
            let sums = ContactSums(bytes: Dictionary(uniqueKeysWithValues: bytes), lost: 2)
            return AlertSample(takenAt: Simulation.time(5), seconds: 5, contacts: sums)
        }
        let most = Contact.sampled.ofUser
        let joined = sample(0..<most).joined(with: sample(most - 5..<most + 3)).joined(with: sample(0..<1, uid: 8))
            .contacts
        #expect(joined.bytes.count == most + 1 && joined.lost == 6 + 3)
        #expect(joined.bytes.values.reduce(0, +) == UInt64(most) + 5 + 1)
    }

    @Test("the log says once an hour how many contacts were not judged")
    func log() {
        var log = AlertLog()
        #expect(log.lines([], unjudged: 0, seconds: 5).isEmpty)
        #expect(log.lines([], unjudged: 3, seconds: 5) == [.unjudged(3)])
        #expect(log.lines([], unjudged: 4, seconds: 3_000).isEmpty && log.lines([], unjudged: 5, seconds: 5).isEmpty)
        #expect(log.lines([], seconds: 600) == [.unjudged(9)])
        #expect(log.lines([], seconds: 4_000).isEmpty)
    }
}
