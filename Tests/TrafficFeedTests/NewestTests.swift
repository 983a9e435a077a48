import Testing
import TrafficFeed
import TrafficModel

@Suite("The newest reading")
struct NewestTests {
    @Test("There is no reading at first, then the newest one")
    func latest() {
        let box = Newest<Reading>()
        #expect(box.latest == nil)
        box.publish(.taken(at: 1))
        box.publish(.taken(at: 2))
        #expect(box.latest?.snapshot.takenBoottimeNanoseconds == 2)
    }

    @Test("A slow reader gets the newest and misses those before")
    func dropping() async {
        let box = Newest<Reading>()
        box.publish(.taken(at: 0))
        var reader = box.updates().makeAsyncIterator()
        #expect(await reader.next()?.snapshot.takenBoottimeNanoseconds == 0)
        for number in 1...1000 { box.publish(.taken(at: UInt64(number))) }
        #expect(await reader.next()?.snapshot.takenBoottimeNanoseconds == 1000)
    }

    @Test("A reader that stops is forgotten")
    func forgotten() async {
        let box = Newest<Reading>()
        box.publish(.taken(at: 1))
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

    @Test("Streams end when the publisher has finished, and later ones have the last reading alone")
    func finish() async {
        let box = Newest<Reading>()
        let stream = box.updates()
        box.publish(.taken(at: 1))
        box.finish()
        var seen = 0
        for await _ in stream { seen += 1 }
        for await _ in box.updates() { seen += 1 }
        #expect(seen == 2)
        #expect(box.readers == 0)
    }

    @Test("A request waits for a sweep that began after it, and not for a sweep that was under way")
    func fresh() async {
        let (asked, ask) = AsyncStream.makeStream(of: Void.self)
        // This is longer than any test, so only a sweep ends the wait.
        let box = Newest<Reading>(patience: .seconds(3600)) { ask.yield() }
        box.publish(.taken(at: 1))
        let underWay = box.beginSweep()
        async let answer = box.fresh()
        for await _ in asked { break }
        box.publish(.taken(at: 2), answering: underWay)
        #expect(box.waiting == 1)
        let next = box.beginSweep()
        box.publish(.taken(at: 3), answering: next, isTick: false)
        #expect(await answer?.snapshot.takenBoottimeNanoseconds == 3)
        #expect(box.waiting == 0)
    }

    @Test("Requests that wait share one sweep, and streams do not see it")
    func shared() async {
        let box = Newest<Reading>(patience: .seconds(3600)) {}
        box.publish(.taken(at: 1))
        var stream = box.updates().makeAsyncIterator()
        // A new stream begins with the next reading, whatever caused it.
        box.publish(.taken(at: 1), answering: box.beginSweep(), isTick: false)
        #expect(await stream.next()?.snapshot.takenBoottimeNanoseconds == 1)
        let answers = await withTaskGroup(of: UInt64?.self) { group in
            for _ in 0..<100 { group.addTask { await box.fresh()?.snapshot.takenBoottimeNanoseconds } }
            while box.waiting < 100 { await Task.yield() }
            box.publish(
                .taken(at: 2),
                answering: box.beginSweep(),
                isTick: false
            )
            return await group.reduce(into: [UInt64?]()) { $0.append($1) }
        }
        #expect(answers == [UInt64?](repeating: 2, count: 100))
        box.publish(.taken(at: 3), answering: box.beginSweep())
        #expect(await stream.next()?.snapshot.takenBoottimeNanoseconds == 3)
    }

    @Test("A reading is awaited by the first tick, requests and streams, and after a request that went without")
    func awaited() async {
        let (asked, ask) = AsyncStream.makeStream(of: Void.self)
        let box = Newest<Reading>(patience: .milliseconds(1)) { ask.yield() }
        #expect(box.isAwaited && !box.isReady, "the first")
        box.publish(.taken(at: 1))
        #expect(!box.isAwaited && box.isReady)
        box.publishNothing()
        #expect(box.isReady && box.latest == nil, "an old reading is not kept")
        #expect(await box.fresh() == nil, "no sweep came in time")
        #expect(box.isAwaited, "the next request is not to go without as well")
        box.publish(.taken(at: 2))
        #expect(await box.fresh()?.snapshot.takenBoottimeNanoseconds == 2, "the one of the sweep before")
        #expect(!box.isAwaited)
        let stream = box.updates()
        #expect(box.isAwaited)
        var demands = asked.makeAsyncIterator()
        for _ in 1...3 { await demands.next() }
        #expect(box.readers == 1, "each of the three asked for a sweep")
        withExtendedLifetime(stream) {}
        let patient = Newest<Reading>(patience: .seconds(3600)) {}
        patient.publish(.taken(at: 1))
        async let answer = patient.fresh()
        while patient.waiting == 0 { await Task.yield() }
        #expect(patient.isAwaited)
        patient.finish()
        #expect(await answer != nil)
    }

    @Test("An answer is the request's own, also if a later sweep makes no reading before the request's task runs")
    func answered() async {
        let box = Newest<Reading>(patience: .seconds(3600)) {}
        box.publish(.taken(at: 1))
        for number in 1...200 as ClosedRange<UInt64> {
            async let answer = box.fresh()
            while box.waiting == 0 { await Task.yield() }
            box.publish(.taken(at: number), answering: box.beginSweep())
            box.publishNothing()
            #expect(await answer?.snapshot.takenBoottimeNanoseconds == number)
        }
    }

    @Test("Without a sweep the newest reading is the answer, and no request keeps waiting")
    func impatient() async {
        let box = Newest<Reading>(patience: .milliseconds(1)) {}
        #expect(await box.fresh() == nil, "before the first there is nothing to wait with")
        box.publish(.taken(at: 1))
        #expect(await box.fresh()?.snapshot.takenBoottimeNanoseconds == 1)
        #expect(box.waiting == 0)
        let patient = Newest<Reading>(patience: .seconds(3600)) {}
        patient.publish(.taken(at: 1))
        let cancelled = Task { await patient.fresh() }
        while patient.waiting == 0 { await Task.yield() }
        cancelled.cancel()
        #expect(await cancelled.value?.snapshot.takenBoottimeNanoseconds == 1)
        async let last = patient.fresh()
        while patient.waiting == 0 { await Task.yield() }
        patient.finish()
        #expect(await last != nil)
        #expect(await patient.fresh() != nil, "nothing more will come")
    }
}

extension Reading {
    fileprivate static func taken(at boottime: UInt64) -> Reading {
        let time = Timestamp(nanosecondsSinceEpoch: 1_763_700_000_000_000_000)
        return Reading(
            snapshot: Snapshot(
                takenAt: time,
                takenBoottimeNanoseconds: boottime,
                countingSince: time,
                host: HostDescription(name: "host", bootID: "boot", kernel: "6.18"),
                daemon: DaemonDescription(version: "0.1", pid: 1, startedAt: time),
                capture: CaptureStatus(method: .tracepoint, hooks: ["tp_btf/sock_send_length"], blindSpots: [])
            )
        )
    }
}
