import Synchronization
import Testing
import TrafficCapture
import TrafficConfiguration

@testable import trafficd

/// A configuration on its way to the counting thread.
@Suite("A new configuration")
struct ReloadTests {
    @Test("whoever gives it waits until the counting thread counts by it, and not only has it")
    func taken() async throws {
        let changes = NewConfiguration(demand: try SweepDemand())
        let isOver = Mutex(false)
        async let giving: Void = {
            await changes.give(Configuration())
            isOver.withLock { $0 = true }
        }()
        while changes.take() == nil { await Task.yield() }
        // Nothing would wait for it here, so it would be over in one of so many turns.
        for _ in 0..<10_000 { await Task.yield() }
        #expect(!isOver.withLock { $0 })
        changes.taken()
        await giving
        #expect(isOver.withLock { $0 } && changes.take() == nil)
    }

    @Test("nobody waits for a thread that counts no more", arguments: [false, true])
    func ended(_ endsBefore: Bool) async throws {
        let changes = NewConfiguration(demand: try SweepDemand())
        if endsBefore { changes.end() }
        async let giving: Void = changes.give(Configuration())
        if !endsBefore {
            while changes.take() == nil { await Task.yield() }
            changes.end()
        }
        await giving
        await changes.give(Configuration())
    }
}
