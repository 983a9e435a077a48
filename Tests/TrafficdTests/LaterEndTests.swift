import Synchronization
import Testing

@testable import trafficd

@Suite("The end of a part that outlives another")
struct LaterEndTests {
    @Test("it comes when it has been asked for and the other has ended, in either order, and not before")
    func order() {
        let ends = Mutex(0)
        func make() -> LaterEnd { LaterEnd { ends.withLock { $0 += 1 } } }
        let asked = make()
        asked.ask()
        #expect(ends.withLock(\.self) == 0)
        asked.otherEnded()
        #expect(ends.withLock(\.self) == 1)
        let over = make()
        over.otherEnded()
        over.otherEnded()
        #expect(ends.withLock(\.self) == 1)
        over.ask()
        #expect(ends.withLock(\.self) == 2)
    }
}
