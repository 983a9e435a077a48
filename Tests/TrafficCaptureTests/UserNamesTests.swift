import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("The names of users")
struct UserNamesTests {
    /// A user database that the test changes, and a clock that it sets.
    private final class Host: Sendable {
        let database = temporaryPath("un")
        private let state = Mutex((names: [UInt32: String](), asked: [UInt32](), now: UInt64(1_000_000_000_000)))
        /// The look-up waits for it; `nil`: the service answers at once.
        private let hanging: DispatchSemaphore?

        init(hangs: Bool = false) { self.hanging = hangs ? DispatchSemaphore(value: 0) : nil }

        func answer() { self.hanging?.signal() }

        var asked: [UInt32] { self.state.withLock { $0.asked } }

        deinit { unlink(self.database) }

        func names(_ names: [UInt32: String]) { self.state.withLock { $0.names = names } }
        func wait(seconds: UInt64) { self.state.withLock { $0.now += seconds * 1_000_000_000 } }

        /// As programs do that add users: another file with the same name.
        func replaceDatabase() throws {
            try Data(UUID().uuidString.utf8).write(to: URL(filePath: self.database), options: .atomic)
        }

        func users() -> UserNames {
            UserNames(
                lookUp: { uid in
                    self.hanging?.wait()
                    return self.state.withLock { state in
                        state.asked.append(uid)
                        return state.names[uid]
                    }
                },
                database: self.database,
                now: { self.state.withLock { $0.now } }
            )
        }
    }

    @Test("a user is asked for once, and the answer counts for ten minutes")
    func once() throws {
        let host = Host()
        host.names([7: "web"])
        let users = host.users()
        #expect(users[7] == "web" && users[7] == "web" && users[8] == nil && users[8] == nil)
        #expect(host.asked == [7, 8])
        host.wait(seconds: 600)
        #expect(users[7] == "web" && host.asked == [7, 8])
        host.wait(seconds: 1)
        #expect(users[7] == "web" && host.asked == [7, 8, 7])
    }

    @Test("a user who gets a name, another name or none is named anew after the database has changed")
    func changes() async throws {
        let host = Host()
        host.names([1: "one", 2: "two"])
        try host.replaceDatabase()
        let users = host.users()
        users.prepare([1, 2, 3])
        #expect(try await eventually { users.known(1) == "one" && users.known(2) == "two" })
        #expect(users.takeChanges() == [1: "one", 2: "two"])
        host.names([1: "uno", 3: "three"])
        host.wait(seconds: 20)
        #expect(users.takeChanges().isEmpty)
        #expect(host.asked.count == 3, "nothing has changed that one could see")
        try host.replaceDatabase()
        host.wait(seconds: 20)
        var changes: [UInt32: String?] = [:]
        #expect(
            try await eventually {
                changes.merge(users.takeChanges()) { $1 }
                return changes.count == 3
            }
        )
        #expect(changes == [1: "uno", 2: nil, 3: "three"] as [UInt32: String?])
        #expect(users[1] == "uno" && users[2] == nil && users[3] == "three")
        #expect(host.asked.count == 6)
    }

    @Test("a directory service, which does not say that it has changed, is asked again after ten minutes")
    func service() async throws {
        let host = Host()
        let users = host.users()
        users.prepare([5])
        #expect(try await eventually { host.asked == [5] })
        host.names([5: "new"])
        host.wait(seconds: 601)
        var changes: [UInt32: String?] = [:]
        #expect(
            try await eventually {
                host.wait(seconds: 11)
                changes.merge(users.takeChanges()) { $1 }
                return changes == [5: "new"]
            }
        )
    }

    @Test("one user's 65,536 ids are asked for again a hundred at a time")
    func subordinateIDs() async throws {
        let host = Host()
        let users = host.users()
        users.prepare(100_000..<165_536)
        #expect(try await eventually { host.asked.count == 65_536 })
        host.wait(seconds: 601)
        _ = users.takeChanges()
        #expect(try await eventually { host.asked.count == 65_636 })
        _ = users.takeChanges()
        #expect(host.asked.count == 65_636)
    }

    @Test("while a directory service hangs, processes are listed and their ends are noticed; then the name comes")
    func hanging() async throws {
        let host = Host(hangs: true)
        host.names([4711: "late"])
        let resolver = try ProcessResolver(users: host.users())
        let thread = Thread { try? resolver.run(watchable: 100) }
        thread.start()
        defer { resolver.stop() }
        let process = try Tool.start(["sleep", "600"])
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
                if case .details(identity, let details) = event { details.user == nil } else { false }
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
