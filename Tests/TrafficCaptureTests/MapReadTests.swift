import CLibbpf
import Glibc
import Testing

@testable import TrafficCapture

@Suite("Maps that can't be read", .enabled(if: geteuid() == 0, "needs root"))
struct MapReadTests {
    /// A map with three elements, and the same one without the right to read it: the kernel refuses each step (EPERM).
    private struct Maps: ~Copyable {
        let good: OwnedDescriptor
        let bad: OwnedDescriptor

        init() throws {
            let good = try Self.make(flags: 0)
            let bad = try Self.make(flags: UInt32(BPF_F_WRONLY))
            self.good = good
            self.bad = bad
        }

        private static func make(flags: UInt32) throws -> OwnedDescriptor {
            var options = bpf_map_create_opts()
            options.sz = MemoryLayout<bpf_map_create_opts>.size
            options.map_flags = flags
            let descriptor = OwnedDescriptor(
                owning: try check("bpf_map_create") { bpf_map_create(BPF_MAP_TYPE_HASH, "test", 8, 8, 8, &options) }
            )
            let map = BPFMap(descriptor: descriptor.descriptor, name: "test", capacity: 8)
            for key in UInt64(1)...3 { try map.set(key, to: key * 10) }
            return descriptor
        }

        func map(isGood: Bool) -> BPFMap {
            let descriptor = isGood ? self.good.descriptor : self.bad.descriptor
            return BPFMap(descriptor: descriptor, name: "test", capacity: 8)
        }
    }

    private static let refused = CaptureError.system(call: "bpf_map_get_next_key", object: "test", errno: EPERM)

    @Test("an error is no end: it is thrown, and a map that can be read is read to its end")
    func ends() throws {
        let maps = try Maps()
        var values: [UInt64: UInt64] = [:]
        try maps.map(isGood: true).forEach(keySize: 8, valueSize: 8) { key, value in
            values[key.unsafeLoadUnaligned(as: UInt64.self)] = value.unsafeLoadUnaligned(as: UInt64.self)
        }
        #expect(values == [1: 10, 2: 20, 3: 30])
        #expect(try maps.map(isGood: true).keys(as: UInt64.self).sorted() == [1, 2, 3])
        #expect(throws: Self.refused) {
            try maps.map(isGood: false).forEach(keySize: 8, valueSize: 8) { _, _ in Issue.record("an element") }
        }
        #expect(throws: Self.refused) { try maps.map(isGood: false).keys(as: UInt64.self) }
    }

    @Test("what a reader could not read stays in the map")
    func stays() throws {
        let maps = try Maps()
        let deferred = DeferredReader(maps.map(isGood: false), shared: maps.map(isGood: true))
        #expect(throws: Self.refused) { try deferred.read { _, _ in Issue.record("a record") } }
        deferred.confirm()
        #expect(deferred.taken.isEmpty)
        deferred.release()
        for key in UInt64(1)...3 {
            // Removing says what is there without reading it.
            #expect(withUnsafeBytes(of: key) { bpf_map_delete_elem(maps.bad.descriptor, $0.baseAddress) } == 0)
        }
    }
}
