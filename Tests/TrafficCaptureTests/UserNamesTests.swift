import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

@Suite("The names of users")
struct UserNamesTests {
    /// A user database that the test changes, and a clock that it sets.
    private final class Host: Sendable {
        let database = temporaryPath("un")
        private let state = Mutex(
            (names: [UInt32: String](), asked: [UInt32](), now: UInt64(1_000_000_000_000), isOut: false)
        )
        /// Look-ups of these users wait.
        private let hanging: Range<UInt32>
        private let answers = DispatchSemaphore(value: 0)

        init(hanging: Range<UInt32> = 0..<0) { self.hanging = hanging }

        func answer() { self.answers.signal() }

        var asked: [UInt32] { self.state.withLock { $0.asked } }

        deinit { unlink(self.database) }

        func names(_ names: [UInt32: String]) { self.state.withLock { $0.names = names } }
        func isOut(_ isOut: Bool) { self.state.withLock { $0.isOut = isOut } }
        func wait(seconds: UInt64) { self.state.withLock { $0.now += seconds * 1_000_000_000 } }

        /// As programs do that add users: another file with the same name.
        func replaceDatabase() throws {
            try Data(UUID().uuidString.utf8).write(to: URL(filePath: self.database), options: .atomic)
        }

        func users() -> UserNames {
            UserNames(
                lookUp: { uid in
                    if self.hanging.contains(uid) { self.answers.wait() }
                    return self.state.withLock { state in
                        state.asked.append(uid)
                        return state.isOut ? .unavailable : .known(state.names[uid])
                    }
                },
                database: self.database,
                now: { self.state.withLock { $0.now } }
            )
        }
    }

    /// Takes changes until all of these have come, while the time goes on.
    private func expect(_ wanted: [UInt32: String?], of users: UserNames, _ host: Host) async throws {
        var changes: [UInt32: String?] = [:]
        #expect(
            try await eventually {
                host.wait(seconds: 1)
                changes.merge(users.takeChanges()) { $1 }
                return changes == wanted
            },
            "\(changes)"
        )
    }

    @Test("who asks for a user gets the answer that is there, and only of a new user waits for one")
    func once() throws {
        let host = Host()
        host.names([7: "web"])
        let users = host.users()
        #expect(users[7] == "web" && users[8] == nil)
        host.names([7: "other", 8: "new"])
        host.wait(seconds: 10_000)
        #expect(users[7] == "web" && users[8] == nil)
        #expect(host.asked == [7, 8])
    }

    @Test("a user who gets a name, another name or none is named anew after the database has changed")
    func changes() async throws {
        let host = Host()
        host.names([1: "one", 2: "two"])
        try host.replaceDatabase()
        let users = host.users()
        users.prepare([1, 2, 3])
        // That a user has no name is news too: an earlier daemon may have known one.
        try await self.expect([1: "one", 2: "two", 3: nil], of: users, host)
        host.names([1: "uno", 3: "three"])
        for _ in 0..<20 {
            host.wait(seconds: 1)
            #expect(users.takeChanges().isEmpty)
        }
        #expect(host.asked.count == 3, "nothing has changed that one could see")
        try host.replaceDatabase()
        try await self.expect([1: "uno", 2: nil, 3: "three"], of: users, host)
        #expect(users[1] == "uno" && users[2] == nil && users[3] == "three")
        #expect(host.asked.count == 6)
    }

    @Test("a directory service, which does not say that it has changed, is asked again; while it is out, names stay")
    func service() async throws {
        let host = Host()
        host.names([5: "old"])
        let users = host.users()
        users.prepare([5])
        try await self.expect([5: "old"], of: users, host)
        host.isOut(true)
        host.names([5: "new"])
        host.wait(seconds: 601)
        var changes: [UInt32: String?] = [:]
        #expect(
            try await eventually {
                host.wait(seconds: 1)
                changes.merge(users.takeChanges()) { $1 }
                return host.asked.count == 2
            }
        )
        #expect(changes.isEmpty && users[5] == "old")
        host.isOut(false)
        host.wait(seconds: 601)
        try await self.expect([5: "new"], of: users, host)
    }

    @Test("65,536 ids of one user are asked for again a hundred a second, and others do not wait for them")
    func subordinateIDs() async throws {
        let host = Host()
        host.names([7: "web"])
        let users = host.users()
        users.prepare(100_000..<165_536)
        users.prepare([7])
        var changes: [UInt32: String?] = [:]
        #expect(
            try await eventually {
                changes.merge(users.takeChanges()) { $1 }
                return changes.count == 65_537
            }
        )
        let asked = { host.asked.count { $0 != 7 } }
        #expect(asked() == 65_536)
        host.wait(seconds: 601)
        host.names([7: "new"])
        changes.merge(users.takeChanges()) { $1 }
        #expect(try await eventually { asked() == 65_636 })
        changes.merge(users.takeChanges()) { $1 }
        #expect(asked() == 65_636, "the second is not over")
        #expect(
            try await eventually(every: .zero) {
                changes.merge(users.takeChanges()) { $1 }
                return changes[7] == .some("new")
            }
        )
        #expect(asked() == 65_636, "nobody waits for the ids of another")
    }

    @Test("while a directory service hangs with the ids of one user, others get their names")
    func hangingIDs() async throws {
        let host = Host(hanging: 131_072..<196_608)
        host.names([7: "web", 131_072: "late"])
        let users = host.users()
        users.prepare(131_072..<196_608)
        users.prepare([7])
        try await self.expect([7: "web"], of: users, host)
        host.answer()
        try await self.expect([131_072: "late"], of: users, host)
        for _ in 1..<65_536 { host.answer() }
    }

    @Test("while a directory service hangs, processes are listed and their ends are noticed; then the name comes")
    func hanging() async throws {
        let host = Host(hanging: 4_711..<4_712)
        host.names([4711: "late"])
        let resolver = try ProcessResolver(users: host.users())
        let thread = Thread { try? resolver.run(watchable: 100) }
        thread.start()
        defer { resolver.stop() }
        let process = try Tool.start(["sleep", "infinity"])
        let ticks = try #require(ProcessDirectory.startTicks(pid: process))
        let identity = ProcessIdentity(
            pid: process,
            startBoottimeNanoseconds: ticks * ProcessIdentity.nanosecondsPerTick
        )
        resolver.resolve(OwnerObservation(identity: identity, name: "sleep", uid: 4711))
        var events: [CaptureEvent] = []
        func isThere(_ matches: @escaping (CaptureEvent) -> Bool) async throws -> Bool {
            try await eventually(every: .milliseconds(10)) {
                events += resolver.takeResults()
                return events.contains(where: matches)
            }
        }
        #expect(
            try await isThere { event in
                if case .details(identity, _) = event { true } else { false }
            }
        )
        kill(process, SIGKILL)
        Tool.end(of: process)
        #expect(try await isThere { if case .exited(identity, _) = $0 { true } else { false } })
        #expect(host.asked.isEmpty)
        host.answer()
        #expect(try await isThere { $0 == .usersNamed([4711: "late"]) })
    }
}
