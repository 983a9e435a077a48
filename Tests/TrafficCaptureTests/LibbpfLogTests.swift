import Testing

@testable import TrafficCapture

@Suite("What libbpf says")
struct LibbpfLogTests {
    @Test("a verifier's log of any length keeps its beginning and the reason at its end")
    func shortened() {
        let begin = "libbpf: prog 'one': -- BEGIN PROG LOAD LOG --\n"
        let end = "the reason\nprocessed 7 insns\n-- END --\n"
        for count in [0, 1, 300, 100_000] {
            let text = LibbpfLog.shortened(begin + String(repeating: "0: (95) exit µ\n", count: count) + end)
            #expect(text.hasPrefix(begin) && text.hasSuffix(end) && text.utf8.count < 4_500)
        }
    }
}
