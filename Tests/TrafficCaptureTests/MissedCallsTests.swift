import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("Which calls count as missed")
struct MissedCallsTests {
    private static let programs: [KernelSide.Description.Program] = [
        .init(name: "socket_state", section: "tp_btf/inet_sock_set_state"),
        .init(name: "sock_send_length", section: "tp_btf/sock_send_length"),
        .init(name: "socket_state_twin", section: "tp_btf/inet_sock_set_state", twinOf: "socket_state"),
    ]

    private static func missed(
        _ skipped: [UInt64],
        of programs: [KernelSide.Description.Program] = Self.programs,
        preempts: Bool = false
    ) -> UInt64 {
        var facts = CapturePlanTests.facts
        facts.preemptsTracepoints = preempts
        return KernelSide.missedCalls(programs, skipped: skipped, facts)
    }

    @Test("a softirq interrupts one of two copies: the other one sees its call, however often that happens")
    func twins() {
        #expect(Self.missed([842, 0, 0]) == 0)
        #expect(Self.missed([842, 0, 3]) == 0)
    }

    @Test("what tasks that were preempted inside both copies may have kept them from seeing is missed, at most")
    func preempted() {
        #expect(Self.missed([842, 0, 3], preempts: true) == 3)
        #expect(Self.missed([842, 0, 0], preempts: true) == 0)
    }

    @Test("a program without a twin, or whose twin the kernel refused, misses what it skips")
    func alone() {
        #expect(Self.missed([0, 5, 0]) == 5)
        #expect(Self.missed([7, 5], of: Array(Self.programs.prefix(2))) == 12)
        #expect(Self.missed([.max, 5], of: Array(Self.programs.prefix(2))) == .max)
    }
}
