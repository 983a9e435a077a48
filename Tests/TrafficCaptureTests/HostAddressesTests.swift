import CLinux
import Glibc
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

/// What the kernel writes for `RTM_GETADDR`, put together by hand.
private struct Dump {
    private(set) var bytes: [UInt8] = []

    private mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value) { self.bytes.append(contentsOf: $0) }
    }

    mutating func message(type: Int, _ payload: [UInt8]) {
        self.append(UInt32(16 + payload.count))
        self.append(UInt16(type))
        self.append(UInt16(0))
        self.append(UInt32(0))
        self.append(UInt32(0))
        self.bytes += payload
        while self.bytes.count % 4 != 0 { self.bytes.append(0) }
    }

    mutating func address(family: Int32, _ attributes: [(type: Int, value: [UInt8])]) {
        // ifaddrmsg: family, prefix length, flags, scope, index.
        var payload: [UInt8] = [UInt8(family), 24, 0, 0, 2, 0, 0, 0]
        for (type, value) in attributes {
            withUnsafeBytes(of: UInt16(4 + value.count)) { payload.append(contentsOf: $0) }
            withUnsafeBytes(of: UInt16(type)) { payload.append(contentsOf: $0) }
            payload += value
            while payload.count % 4 != 0 { payload.append(0) }
        }
        self.message(type: RTM_GETADDR - 2, payload)
    }

    mutating func done() { self.message(type: Int(NLMSG_DONE), [0, 0, 0, 0]) }

    func parsed() throws(CaptureError) -> (Set<InternetAddress>, isComplete: Bool) {
        var addresses: Set<InternetAddress> = []
        let isComplete = try HostAddresses.parse(self.bytes.span.bytes, into: &addresses)
        return (addresses, isComplete)
    }

    mutating func damage(at index: Int, _ byte: UInt8) { self.bytes[index] = byte }
    mutating func cut(to count: Int) { self.bytes = Array(self.bytes.prefix(count)) }
}

private func set(_ texts: String...) -> Set<InternetAddress> { Set(texts.compactMap { InternetAddress($0) }) }

@Suite("The host's addresses")
struct HostAddressesTests {
    private static let six: [UInt8] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]

    private static var dump: Dump {
        var dump = Dump()
        let label = Array("eth0\0".utf8)
        dump.address(family: AF_INET, [(IFA_LABEL, label), (IFA_ADDRESS, [10, 0, 0, 5]), (IFA_LOCAL, [10, 0, 0, 5])])
        // On a point-to-point link IFA_ADDRESS is the other end's address.
        dump.address(family: AF_INET, [(IFA_ADDRESS, [192, 0, 2, 2]), (IFA_LOCAL, [192, 0, 2, 1])])
        dump.address(family: AF_INET6, [(IFA_ADDRESS, Self.six)])
        dump.address(family: AF_PACKET, [(IFA_ADDRESS, [1, 2, 3, 4])])
        dump.address(family: AF_INET, [])
        return dump
    }

    @Test("are the local ends that the kernel lists, in both families")
    func parse() throws {
        var dump = Self.dump
        #expect(try dump.parsed() == (set("10.0.0.5", "192.0.2.1", "2001:db8::7"), false))
        dump.done()
        #expect(try dump.parsed() == (set("10.0.0.5", "192.0.2.1", "2001:db8::7"), true))
    }

    @Test("give an error where the kernel reports one, or writes malformed data")
    func faults() {
        var refused = Dump()
        refused.message(type: Int(NLMSG_ERROR), withUnsafeBytes(of: -EPERM) { Array($0) })
        #expect(throws: CaptureError.system(call: "dump", object: "rtnetlink", errno: EPERM)) { try refused.parsed() }
        var short = Dump()
        short.address(family: AF_INET6, [(IFA_ADDRESS, [10, 0, 0, 5])])
        #expect(throws: CaptureError.malformed("address of 4 bytes")) { try short.parsed() }
    }

    @Test("are read or refused, never a trap, from any bytes", arguments: 0..<10 as Range<UInt64>)
    func damaged(seed: UInt64) {
        var random = Seeded(seed)
        for _ in 0..<2_000 {
            var dump = Self.dump
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                dump.damage(at: .random(in: 0..<dump.bytes.count, using: &random), .random(in: 0...255, using: &random))
            }
            if Bool.random(using: &random) { dump.cut(to: .random(in: 0...dump.bytes.count, using: &random)) }
            _ = try? dump.parsed()
        }
    }

    @Test("of this machine contain those of its loopback interface")
    func live() throws {
        let host = try HostAddresses.read()
        #expect(host.addresses.contains(try #require(InternetAddress("127.0.0.1"))))
        #expect(host.namespaces.contains(try #require(ProcessDirectory.networkNamespace(task: "self"))))
    }
}

@Suite("When the host's addresses are read again")
struct HostAddressWatchTests {
    /// A host whose addresses and clock a test sets.
    private final class Host {
        var addresses = set("127.0.0.1", "10.0.0.5")
        var namespaces: Set<UInt32> = [7]
        var failure: CaptureError?
        var now: UInt64 = 1_000_000_000_000
        /// How long reading takes.
        var duration: UInt64 = 2_000_000
        var reads = 0
        /// A reading takes longer than anyone waits.
        var isSlow = false
        var watch = HostAddressWatch { _ in nil }
        private var reading: AddressReading?

        init() {
            self.watch = HostAddressWatch { [unowned self] begins in
                #expect(begins == (self.reading == nil))
                if begins {
                    self.reads += 1
                    self.now += self.duration
                    let found = HostAddresses(addresses: self.addresses, namespaces: self.namespaces)
                    let result = self.failure.map(Result.failure) ?? .success(found)
                    self.reading = AddressReading(result: result, cost: self.duration)
                }
                return self.isSlow ? nil : self.reading.take()
            }
        }

        func see(_ local: String, in namespace: UInt32 = 7) {
            let address = SocketAddress(address: InternetAddress(local) ?? .init(bytes: .init(repeating: 0)), port: 1)
            self.watch.notice(
                SocketObservation(
                    cookie: SocketCookie(rawValue: 1),
                    transport: .tcp,
                    family: .ipv4,
                    local: address,
                    remote: address,
                    role: .peer,
                    state: .established,
                    networkNamespace: namespace
                )
            )
        }

        func refresh(after seconds: Double = 0) throws(CaptureError) -> CaptureEvent? {
            self.now += UInt64(seconds * 1e9)
            return try self.watch.refresh(now: self.now)
        }
    }

    @Test("at the start, and every ten seconds; only a change is reported")
    func period() throws {
        let host = Host()
        #expect(try host.refresh() == .hostAddresses(host.addresses))
        #expect(try host.refresh(after: 9.9) == nil)
        #expect(host.reads == 1)
        #expect(try host.refresh(after: 0.1) == nil)
        #expect(host.reads == 2)
        host.addresses = set("127.0.0.1")
        #expect(try host.refresh(after: 10) == .hostAddresses(host.addresses))
    }

    @Test("at once when a socket has an address of its own that is not among them")
    func news() throws {
        let host = Host()
        _ = try host.refresh()
        for known in ["10.0.0.5", "0.0.0.0", "::", "127.0.0.9"] { host.see(known) }
        #expect(try host.refresh(after: 0.2) == nil)
        #expect(host.reads == 1)
        // Each round has a new container.
        for container in 2..<20 {
            host.addresses.insert(try #require(InternetAddress("172.17.0.\(container)")))
            host.see("172.17.0.\(container)")
            #expect(try host.refresh(after: 0.01) == .hostAddresses(host.addresses))
        }
    }

    @Test("at once when a socket is in an unknown namespace, for example in a container that only listens")
    func namespaces() throws {
        let host = Host()
        _ = try host.refresh()
        host.addresses.formUnion(set("172.17.0.2"))
        host.see("0.0.0.0", in: 8)
        host.namespaces = [7, 8]
        #expect(try host.refresh(after: 0.01) == .hostAddresses(host.addresses))
        host.see("0.0.0.0", in: 8)
        #expect(try host.refresh(after: 0.01) == nil)
        #expect(host.reads == 2)
    }

    @Test("for a hundredth of the time at most, where sockets have an address or a namespace that no reading explains")
    func strangers() throws {
        let host = Host()
        _ = try host.refresh()
        let start = host.now
        for _ in 0..<5_000 {
            host.see("198.51.100.1", in: 99)
            _ = try host.refresh(after: 0.001)
        }
        let spent = Double(UInt64(host.reads - 1) * host.duration) / Double(host.now - start)
        #expect(spent < 0.011)
        #expect(host.reads > 10)
        // A socket with another new address waits only for a moment.
        host.addresses.formUnion(set("172.17.0.2"))
        host.see("172.17.0.2")
        #expect(try host.refresh(after: 0.01) == .hostAddresses(host.addresses))
        // A container with the unexplained address is known after the pause, or at once by its namespace.
        host.addresses.formUnion(set("198.51.100.1"))
        host.see("198.51.100.1", in: 100)
        #expect(try host.refresh(after: 0.01) == .hostAddresses(host.addresses))
    }

    @Test("for a fifth of the time at most, however many foreign addresses a process binds to (IP_FREEBIND)")
    func floodOfStrangers() throws {
        let host = Host()
        _ = try host.refresh()
        let start = host.now
        for round in 0..<500 {
            for last in 0..<3 { host.see("198.\(round / 256 % 256).\(round % 256).\(last)") }
            _ = try host.refresh(after: 0.001)
        }
        let spent = Double(UInt64(host.reads - 1) * host.duration) / Double(host.now - start)
        #expect(spent < 0.21)
        #expect(host.reads > 10)
    }

    @Test("one at a time, and nobody waits for it; what a socket showed meanwhile is asked for after it")
    func slow() throws {
        let host = Host()
        _ = try host.refresh()
        host.isSlow = true
        host.addresses.formUnion(set("172.17.0.2"))
        host.see("172.17.0.2")
        #expect(try host.refresh(after: 0.1) == nil)
        // The reading began before these containers had their addresses.
        let before = host.addresses
        host.addresses.formUnion(set("172.17.0.3"))
        host.see("172.17.0.3")
        #expect(try host.refresh(after: 30) == nil)
        #expect(host.reads == 2)
        host.isSlow = false
        #expect(try host.refresh(after: 0.1) == .hostAddresses(before))
        #expect(host.reads == 2)
        #expect(try host.refresh(after: 0.1) == .hostAddresses(host.addresses))
        #expect(host.reads == 3)
        // One that takes longer than the period has a pause after it.
        host.isSlow = true
        #expect(try host.refresh(after: 10) == nil)
        host.isSlow = false
        #expect(try host.refresh(after: 30) == nil && host.refresh(after: 9.9) == nil)
        #expect(host.reads == 4)
    }

    @Test("again later, where the kernel refused")
    func refused() throws {
        let host = Host()
        host.failure = .malformed("?")
        #expect(throws: CaptureError.malformed("?")) { try host.refresh() }
        #expect(try host.refresh(after: 9) == nil)
        host.failure = nil
        #expect(try host.refresh(after: 1) == .hostAddresses(host.addresses))
    }
}
