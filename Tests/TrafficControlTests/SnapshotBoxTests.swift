import Testing
import TrafficControl
import TrafficModel

@Suite("The published snapshot")
struct SnapshotBoxTests {
    @Test("There is none at first, then the newest")
    func latest() {
        let box = SnapshotBox()
        #expect(box.latest == nil)
        box.publish(Fixture.snapshot(takenBoottimeNanoseconds: 1))
        box.publish(Fixture.snapshot(takenBoottimeNanoseconds: 2))
        #expect(box.latest?.takenBoottimeNanoseconds == 2)
    }

    @Test("A slow reader gets the newest and misses those before")
    func dropping() async {
        let box = SnapshotBox()
        box.publish(Fixture.snapshot(takenBoottimeNanoseconds: 0))
        var reader = box.updates().makeAsyncIterator()
        #expect(await reader.next()?.takenBoottimeNanoseconds == 0)
        for number in 1...1000 { box.publish(Fixture.snapshot(takenBoottimeNanoseconds: UInt64(number))) }
        #expect(await reader.next()?.takenBoottimeNanoseconds == 1000)
    }

    @Test("A reader that stops is forgotten")
    func forgotten() async {
        let box = SnapshotBox()
        box.publish(Fixture.snapshot())
        for await _ in box.updates() { break }
        #expect(box.readers == 0)
        let task = Task {
            for await _ in box.updates() {}
        }
        while box.readers == 0 { await Task.yield() }
        task.cancel()
        await task.value
        #expect(box.readers == 0)
    }

    @Test("Streams end when the publisher has finished, and later ones have the last snapshot alone")
    func finish() async {
        let box = SnapshotBox()
        let stream = box.updates()
        box.publish(Fixture.snapshot())
        box.finish()
        var seen = 0
        for await _ in stream { seen += 1 }
        for await _ in box.updates() { seen += 1 }
        #expect(seen == 2)
        #expect(box.readers == 0)
    }
}
