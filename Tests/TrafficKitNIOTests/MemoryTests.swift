import NIOCore
import NIOEmbedded
import Testing
import TrafficKit
import TrafficReport

@testable import TrafficKitNIO

@Suite("Memory of a connection")
struct MemoryTests {
    @Test("what the library keeps of an idle connection has at most 1,000 bytes, and grows only with open exchanges")
    func idle() {
        #expect(MemoryLayout<ConnectionTraffic>.size <= 1_000)
    }

    @Test("a handler that is removed keeps neither its connection nor the other handler")
    func released() throws {
        let monitor = TrafficMonitor()
        weak var handler: TrafficHTTPHandler?
        weak var tls: TrafficTLSHandler?
        do {
            let channel = EmbeddedChannel()
            let counter = TrafficTLSHandler()
            let counting = TrafficHTTPHandler(role: .server, monitor: monitor, tls: counter)
            (handler, tls) = (counting, counter)
            try channel.pipeline.syncOperations.addHandlers([counter, counting])
            #expect(try channel.finish().isClean)
        }
        #expect(handler == nil && tls == nil)
    }
}
