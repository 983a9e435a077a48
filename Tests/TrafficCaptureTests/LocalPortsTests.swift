import Foundation
import Testing

@testable import TrafficCapture

@Suite("The ports of clients")
struct LocalPortsTests {
    @Test(
        "two numbers are a range, anything else is none",
        arguments: [
            ("32768\t60999\n", 32_768...60_999), ("1 1", 1...1), ("5 4", nil), ("", nil), ("1", nil), ("1 70000", nil),
            ("1 2 3", nil),
        ] as [(String, ClosedRange<UInt16>?)]
    )
    func parse(text: String, range: ClosedRange<UInt16>?) {
        #expect(LocalPorts.range(in: text) == range)
    }

    @Test("this machine's range is the one from which the kernel gives ports")
    func here() throws {
        let text = try String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        #expect(LocalPorts.range() == LocalPorts.range(in: text))
    }
}
