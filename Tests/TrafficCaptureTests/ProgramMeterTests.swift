import CLibbpf
import Glibc
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    private static func sends(_ cost: CaptureCost) -> UInt64 {
        cost.programs.filter { $0.name.contains("send") }.reduce(0) { $0 + $1.calls }
    }

    /// Descriptors of this process that hold the kernel's statistics on.
    private static func statistics() -> Int {
        ProcessDirectory.entries("/proc/self/fd").count { linkTarget("/proc/self/fd/\($0)") == "anon_inode:bpf-stats" }
    }

    @Test("the meter counts at least the calls that the test made, and those of the sweep")
    func meterCounts() throws {
        let capture = try BPFCapture(method: self.method)
        let meter = try #require(try capture.programMeter())
        let pair = try SocketPair()
        let start = MonotonicClock.nanoseconds()
        let measurement = try meter.start()
        for _ in 0..<500 { try pair.transfer(100) }
        try capture.sweep { _ in }
        let cost = try measurement.cost()
        let seconds = Double(MonotonicClock.nanoseconds() - start) / 1e9

        #expect(Self.sends(cost) >= 500)
        #expect(cost.seconds > 0 && cost.seconds < seconds)
        // The sweep visited both ends of the pair.
        #expect(cost.programs.reduce(0) { $0 + ($1.name.hasPrefix("sweep_") ? $1.calls : 0) } >= 2)
        // A processor runs one call of a program at a time.
        let most = seconds * 1e9 * Double(sysconf(Int32(_SC_NPROCESSORS_CONF)))
        // All attached programs, and the iterators.
        let hooks = cost.programs.map(\.hook)
        #expect(Array(hooks.prefix(capture.status.hooks.count)) == capture.status.hooks)
        #expect(hooks.dropFirst(capture.status.hooks.count).allSatisfy { $0.hasPrefix("iter/") })
        for program in cost.programs {
            #expect((program.nanosecondsPerCall == nil) == (program.calls == 0), "\(program)")
            #expect(program.nanosecondsPerCall ?? 1 > 0, "\(program)")
            #expect(program.callsPerSecond == Double(program.calls) / cost.seconds)
        }
        let all = cost.programs.reduce(0) { $0 + ($1.nanosecondsPerCall ?? 0) * Double($1.calls) }
        #expect(all <= most)
        #expect(try #require(cost.emptyProgramNanoseconds) > 0)
    }

    @Test("two measurements do not disturb each other, and the last one switches the statistics off")
    func meterTwice() throws {
        let capture = try BPFCapture(method: self.method)
        let meter = try #require(try capture.programMeter())
        let pair = try SocketPair()
        #expect(Self.statistics() == 0)
        do {
            let long = try meter.start()
            #expect(Self.statistics() == 1)
            for _ in 0..<100 { try pair.transfer(1) }
            do {
                let short = try meter.start()
                for _ in 0..<100 { try pair.transfer(1) }
                let cost = try short.cost()
                #expect(Self.sends(cost) >= 100)
                #expect(Self.sends(cost) + 100 <= Self.sends(try long.cost()), "what was before is not in it")
                let other = try long.cost()
                #expect(cost.statisticsWereOn == other.statisticsWereOn, "each other's are nobody else's")
            }
            #expect(Self.statistics() == 1)
            for _ in 0..<100 { try pair.transfer(1) }
            #expect(Self.sends(try long.cost()) >= 300)
        }
        #expect(Self.statistics() == 0)
    }

    @Test("statistics that another program switched on are noticed, and not measured as the meter's own")
    func meterOfOthers() throws {
        let capture = try BPFCapture(method: self.method)
        let meter = try #require(try capture.programMeter())
        do {
            // /proc/sys/kernel/bpf_stats_enabled does not show this; only the effect on a program does.
            let others = OwnedDescriptor(owning: try check("bpf_enable_stats") { bpf_enable_stats(BPF_STATS_RUN_TIME) })
            let cost = try meter.start().cost()
            #expect(cost.statisticsWereOn == true)
            #expect(cost.statisticsNanoseconds == nil && cost.emptyProgramNanoseconds ?? 0 > 0)
            #expect(others.descriptor >= 0)
        }
        // Another test on this machine may use the statistics just now.
        let areOff = try blockingLook(every: .milliseconds(100), until: { $0 }) {
            try meter.start().cost().statisticsWereOn == false
        }
        #expect(areOff)
    }

    @Test("the meter works on other threads while the capture runs, and outlives the capture")
    func meterElsewhere() async throws {
        let before = Self.openBPFDescriptors()
        do {
            var capture: BPFCapture? = try BPFCapture(method: self.method)
            let meter = try #require(try capture?.programMeter())
            let pair = try SocketPair()
            async let costs = withThrowingTaskGroup(of: UInt64.self) { tasks in
                for _ in 0..<8 {
                    tasks.addTask {
                        let cost = try meter.start().cost()
                        return Self.sends(cost)
                    }
                }
                return try await tasks.reduce(into: [UInt64]()) { $0.append($1) }
            }
            for _ in 0..<50 {
                try pair.transfer(10)
                try capture?.sweep { _ in }
            }
            #expect(try await costs.count == 8)
            capture = nil
            // The programs are detached, but the meter can still read them. A program that another test is starting may
            // have a copy of their links for a moment.
            let sends = try blockingLook(until: { $0 == 0 }) {
                let measurement = try meter.start()
                for _ in 0..<10 { try pair.transfer(1) }
                return Self.sends(try measurement.cost())
            }
            #expect(sends == 0)
        }
        #expect(Self.openBPFDescriptors() == before)
    }

    @Test("a method without programs has no meter")
    func meterOfPoll() throws {
        #expect(try PollCapture().programMeter() == nil)
    }
}
