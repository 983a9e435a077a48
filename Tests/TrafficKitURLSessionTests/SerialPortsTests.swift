import Foundation
import Testing
import TrafficKit
import TrafficReport

@testable import TrafficKitURLSession

@Suite("The socket of an exchange")
struct SerialPortsTests {
    @Test("an exchange is alone at its port or not, in whatever order exchanges end")
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

    @Test("in a process with too many descriptors no descriptor is read")
    func manyDescriptors() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "fd-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let add = { (name: String) in try Data().write(to: folder.appending(path: name)) }
        try add("none")
        for number in 0..<5 { try add("\(number)") }
        #expect(OwnSockets.numbers(in: folder.path, atMost: 5)?.sorted() == [0, 1, 2, 3, 4])
        try add("1024")
        #expect(OwnSockets.numbers(in: folder.path, atMost: 5) == nil)
        #expect(OwnSockets.numbers(in: folder.path, atMost: 6)?.max() == 1_024)
        #expect(OwnSockets.numbers(in: "/nowhere", atMost: 5) == [])
        // The descriptors of this process.
        let own = try #require(OwnSockets.numbers(in: "/proc/self/fd", atMost: 1 << 20))
        #expect(Set([0, 1, 2]).isSubset(of: own))
    }
}
