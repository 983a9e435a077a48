import Foundation
import Glibc
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

@Suite("Looking processes up")
struct ResolverTests {
    private static func owner(_ pid: Int32, user: UInt32, name: String = "a") -> OwnerObservation {
        OwnerObservation(
            identity: ProcessIdentity(pid: pid, startBoottimeNanoseconds: 5),
            name: name,
            uid: user
        )
    }

    @Test("a process that is queued 100,000 times waits once, with its last name")
    func coalesced() {
        var queue = InquiryQueue()
        for number in 0..<100_000 { queue.add(Self.owner(1, user: 7, name: number == 99_999 ? "last" : "x")) }
        #expect(queue.count == 1)
        #expect(queue.take(10).map(\.name) == ["last"])
        #expect(queue.isEmpty && queue.take(10).isEmpty)
    }

    @Test(
        "users take turns, and one user's many processes do not delay another user's",
        arguments: [false, true]
    )
    func turns(hasSubordinateIDs: Bool) {
        var queue = InquiryQueue()
        for pid in Int32(1)...100_000 {
            queue.add(Self.owner(pid, user: hasSubordinateIDs ? 131_072 + UInt32(pid) % 65_536 : 7))
        }
        #expect(queue.count == InquiryQueue.limitPerUser)
        queue.add(Self.owner(200_001, user: 8))
        queue.add(Self.owner(200_002, user: 8))
        #expect(queue.take(4).map(\.identity.pid) == [1, 200_001, 2, 200_002])
        var seen: [Int32] = []
        while !queue.isEmpty { seen += queue.take(256).map(\.identity.pid) }
        #expect(seen == Array(3...Int32(InquiryQueue.limitPerUser)))
        #expect(queue.take(1).isEmpty)
    }

    @Test(
        "when many users together reach the limit, the user with the most waiting processes gives way",
        arguments: [UInt32(16), 18]
    )
    func manyUsers(users: UInt32) {
        var queue = InquiryQueue()
        for user in 0..<users {
            for pid in Int32(1)...4_100 { queue.add(Self.owner(pid + Int32(user) * 10_000, user: user)) }
        }
        #expect(queue.count == InquiryQueue.limit)
        queue.add(Self.owner(900_000, user: 1_000))
        #expect(queue.count == InquiryQueue.limit)
        #expect(queue.take(Int(users) + 1).contains { $0.uid == 1_000 })
        var rest = 0
        while !queue.isEmpty { rest += queue.take(1_000).count }
        #expect(rest == InquiryQueue.limit - Int(users) - 1)
    }

    @Test("the end of a process is noticed with a descriptor and without", arguments: [0, 1, 100])
    func end(watchable: Int) async throws {
        let resolver = try ProcessResolver()
        let thread = Thread { try? resolver.run(watchable: watchable) }
        thread.start()
        defer { resolver.stop() }
        var processes: [pid_t] = []
        var identities: Set<ProcessIdentity> = []
        for _ in 0..<4 {
            let process = try Tool.start(["sleep", "infinity"])
            processes.append(process)
            let ticks = try #require(ProcessDirectory.startTicks(pid: process))
            let identity = ProcessIdentity(
                pid: process,
                startBoottimeNanoseconds: ticks * ProcessIdentity.nanosecondsPerTick
            )
            identities.insert(identity)
            resolver.resolve(OwnerObservation(identity: identity, name: "sleep"))
        }
        var details: Set<ProcessIdentity> = []
        var exited: Set<ProcessIdentity> = []
        let take = {
            for event in resolver.takeResults() {
                if case .details(let process, _) = event { details.insert(process) }
                if case .exited(let process, _) = event { exited.insert(process) }
            }
        }
        while details != identities {
            take()
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(exited.isEmpty)
        #expect(resolver.unwatched == max(0, 4 - watchable))
        for process in processes {
            kill(process, SIGKILL)
            Tool.end(of: process)
        }
        let haveAllExited = try await eventually(every: .milliseconds(10)) {
            take()
            return exited == identities
        }
        #expect(haveAllExited)
        #expect(try await eventually(every: .milliseconds(10)) { resolver.unwatched == 0 })
    }
}

extension LiveCaptureTests {
    @Test("when more programs begin than there is room to report, one event says so")
    func executionsMissed() throws {
        let capture = try BPFCapture(method: self.method, mapElements: 64)
        var missed = 0
        let sweep = { try capture.sweep { if case .executionsMissed = $0 { missed += 1 } } }
        try sweep()
        missed = 0
        for _ in 0..<200 {
            try Tool.wait(for: "true", [])
        }
        try sweep()
        #expect(missed == 1)
    }
}
