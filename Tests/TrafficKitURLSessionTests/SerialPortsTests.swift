import Testing
import TrafficKit
import TrafficReport

@testable import TrafficKitURLSession

@Suite("Which socket an exchange had")
struct SerialPortsTests {
    @Test("an exchange is alone at its port, or not, whichever ends first")
    func overlaps() {
        var ports = SerialPorts()
        let begun = [1, 2].map { ports.begin(port: $0) }
        var ended = [ports.end(begun[0], port: 1)]
        #expect(ended == [true])
        let both = [ports.begin(port: 1), ports.begin(port: 1)]
        ended = [ports.end(both[0], port: 1)]
        let third = ports.begin(port: 1)
        ended += [ports.end(both[1], port: 1), ports.end(third, port: 1)]
        #expect(ended == [false, false, false])
        let last = ports.begin(port: 1)
        ended = [ports.end(last, port: 1), ports.end(begun[1], port: 2)]
        #expect(ended == [true, true])
    }
}
