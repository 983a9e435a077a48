import CLinux
import CTunTap
import Glibc
import TestSupport
import Testing
import TrafficEvents
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

@Suite("Generations of interfaces")
struct InterfaceGenerationTests {
    private typealias Key = InterfaceGenerations.Key
    private static let home: UInt32 = 7

    private static func packets(_ key: Key, _ bytes: UInt64) -> InterfacePackets {
        var packets = InterfacePackets(key)
        packets.sent.ip = bytes
        packets.received.ip = 2 * bytes
        return packets
    }

    /// The kernel's side: elements of two generations.
    private struct Kernel {
        var present: [Key: UInt64] = [:]
        var old: [Key: UInt64] = [:]
        var elements: [InterfacePackets] {
            [self.present, self.old].flatMap { $0.map { InterfaceGenerationTests.packets($0.key, $0.value) } }
        }
    }

    @Test(
        "whatever interfaces come, go and come back, the sum is what passed, and only present ones have rows",
        arguments: 1...20
    )
    func random(seed: UInt64) {
        var random = Seeded(seed)
        var generations = InterfaceGenerations(home: Self.home, threshold: 8)
        var kernel = Kernel()
        var interfaces: Set<UInt32> = [1]
        var passed: UInt64 = 0
        for round in UInt32(0)..<300 {
            // Some interfaces are in the daemon's namespace, and some come back after a while.
            for _ in 0..<5 {
                let isHome = random.next() % 3 == 0
                let key = Key(
                    networkNamespace: isHome ? Self.home : 100 + round / 10 + UInt32(random.next() % 3),
                    index: isHome ? 1 + UInt32(random.next() % 4) + round / 50 : 1
                )
                if isHome { interfaces.insert(key.index) }
                let bytes = random.next() % 1_000
                kernel.present[key, default: 0] += bytes
                passed += bytes
            }
            if random.next() % 10 == 0, let gone = interfaces.randomElement(using: &random) { interfaces.remove(gone) }
            let totals = generations.totals(kernel.elements)
            #expect(totals.reduce(0) { $0 + $1.sent.ip } == passed)
            #expect(totals.reduce(0) { $0 + $1.received.ip } == 2 * passed)
            #expect(Set(totals.map(\.key)).count == totals.count)
            if round % 7 == 6 {
                (kernel.old, kernel.present) = (kernel.present, [:])
            } else if round % 7 == 0 {
                let last = kernel.old.map { Self.packets($0.key, $0.value) }
                generations.retire(last, current: Set(kernel.present.keys), interfaces: interfaces)
                kernel.old = [:]
                let rows = Set(generations.totals([]).map(\.key))
                let expected = interfaces.map { Key(networkNamespace: Self.home, index: $0) }
                #expect(rows.isSubset(of: Set(kernel.present.keys).union(expected + [.gone])))
            }
        }
    }
}

extension LiveCaptureTests {
    @Suite("Interfaces that come and go", .serialized)
    struct InterfaceTests {
        /// The loopback interface of each namespace passes one datagram. A namespace ends when the next one is made.
        @Test("a thousand namespaces, each with an interface, lose nothing and leave nothing")
        func thousandNamespaces() throws {
            let capture = try BPFCapture(method: LiveMethod.probed.method ?? .tracepoint, interfaceElements: 256)
            var ledger = Ledger()
            var rows: [InterfacePackets] = []
            var loss = CaptureLoss()
            let sweep = {
                try capture.sweep { event in
                    if case .packets(let all) = event { rows = all }
                    if case .loss(let seen) = event { loss = seen }
                    ledger.absorb(event)
                }
            }
            try sweep()
            let home = ProcessDirectory.networkNamespace(task: "thread-self")
            let sum = { rows.reduce(UInt64(0)) { $0 + ($1.networkNamespace == home ? 0 : $1.sent.ip) } }
            let (start, lossAtStart) = (sum(), loss)
            var passed: UInt64 = 0
            for round in 1...50 {
                passed += try OwnNamespace.run {
                    var bytes: UInt64 = 0
                    for number in 1...20 {
                        try check("unshare") { linux_unshare_network() }
                        try check("raise", "lo") { raise_interface("lo") }
                        try Self.sendDatagram(bytes: 100 * number)
                        bytes += OwnNamespace.loopbackCounters().bytes
                    }
                    return bytes
                }.result
                try sweep()
                // The kernel's map at its limit for other namespaces, in two generations, and the home's rows.
                #expect(rows.count < 256, "round \(round)")
            }
            for _ in 0..<3 { try sweep() }
            #expect(passed > 1_000 * 128)
            // Other programs have namespaces, too.
            #expect(sum() - start >= passed)
            #expect(loss.mapFull == lossAtStart.mapFull)
            #expect(ledger.tick(capture).evidence.packets.count < 256)
        }

        /// No socket takes the datagram. Loopback's counters have the datagram and the kernel's answer.
        private static func sendDatagram(bytes: Int) throws {
            let sender = OwnedDescriptor(owning: try check("socket") { socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0) })
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(9).bigEndian
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let payload = [UInt8](repeating: 1, count: bytes)
            try withUnsafeMutablePointer(to: &address) { address in
                try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    _ = try check("sendto") {
                        sendto(sender.descriptor, payload, bytes, 0, address, socklen_t(MemoryLayout<sockaddr_in>.size))
                    }
                }
            }
        }
    }
}
