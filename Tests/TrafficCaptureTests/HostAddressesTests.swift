import CLinux
import Foundation
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

    @Test(
        "of the network namespace are news at the first reading, and after each change",
        .enabled(if: geteuid() == 0, "needs root")
    )
    func live() throws {
        _ = try OwnNamespace.run {
            let host = try HostAddresses()
            #expect(try host.refresh() == .hostAddresses(set("127.0.0.1", "::1")))
            #expect(try host.refresh() == nil)
            OwnNamespace.ip("address", "add", "127.0.0.9/32", "dev", "lo")
            #expect(try host.refresh() == .hostAddresses(set("127.0.0.1", "::1", "127.0.0.9")))
            OwnNamespace.ip("address", "add", "fd00::7/128", "dev", "lo")
            OwnNamespace.ip("address", "del", "127.0.0.9/32", "dev", "lo")
            #expect(try host.refresh() == .hostAddresses(set("127.0.0.1", "::1", "fd00::7")))
            #expect(try host.refresh() == nil)
        }
    }

    @Test(
        "are read again if the kernel had no room for the news of a change",
        .enabled(if: geteuid() == 0, "needs root")
    )
    func overrun() throws {
        let commands = FileManager.default.temporaryDirectory.appending(path: "addresses-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: commands) }
        let rounds = (0..<2_000).flatMap { _ in ["address add 127.0.0.9/32 dev lo", "address del 127.0.0.9/32 dev lo"] }
        try Data((rounds + ["address add 127.0.0.7/32 dev lo\n"]).joined(separator: "\n").utf8).write(to: commands)
        _ = try OwnNamespace.run {
            let host = try HostAddresses()
            _ = try host.refresh()
            OwnNamespace.ip("-batch", commands.path)
            #expect(try host.refresh() == .hostAddresses(set("127.0.0.1", "::1", "127.0.0.7")))
        }
    }
}
