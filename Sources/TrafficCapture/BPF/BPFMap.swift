import CLibbpf
import Glibc

/// A map of the kernel. The value must not outlive the owner of its descriptor.
struct BPFMap {
    let descriptor: Int32
    let name: String
    /// In elements; of a ring buffer, in bytes.
    let capacity: UInt32

    /// Calls `body` for every element, with key and value bytes.
    ///
    /// - Throws: ``CaptureError`` if the kernel can't read on, for example without memory (ENOMEM). `body` may then have
    ///   been called for some of the elements.
    func forEach(
        keySize: Int,
        valueSize: Int,
        _ body: (_ key: RawSpan, _ value: RawSpan) -> Void
    ) throws(CaptureError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * keySize + valueSize, alignment: 8)
        defer { buffer.deallocate() }
        let key = UnsafeMutableRawBufferPointer(rebasing: buffer[0..<keySize])
        let next = UnsafeMutableRawBufferPointer(rebasing: buffer[keySize..<2 * keySize])
        let value = UnsafeMutableRawBufferPointer(rebasing: buffer[(2 * keySize)...])
        var previous: UnsafeMutableRawPointer?
        while try self.moves(to: next.baseAddress, after: previous) {
            key.copyMemory(from: UnsafeRawBufferPointer(next))
            previous = key.baseAddress
            // A program may have removed the element.
            guard try self.exists(bpf_map_lookup_elem(self.descriptor, key.baseAddress, value.baseAddress)) else {
                continue
            }
            body(
                RawSpan(_unsafeBytes: UnsafeRawBufferPointer(key)),
                RawSpan(_unsafeBytes: UnsafeRawBufferPointer(value))
            )
        }
    }

    /// - Returns: `false` after the last key.
    private func moves(
        to next: UnsafeMutableRawPointer?,
        after previous: UnsafeMutableRawPointer?
    ) throws(CaptureError) -> Bool {
        try self.exists(bpf_map_get_next_key(self.descriptor, previous, next), call: "bpf_map_get_next_key")
    }

    private func exists(_ result: Int32, call: String = "bpf_map_lookup_elem") throws(CaptureError) -> Bool {
        guard result == 0 || result == -ENOENT else {
            throw .system(call: call, object: self.name, errno: -result)
        }
        return result == 0
    }

    /// Removes an element. An absent element is no error: another thread, or the kernel, was first.
    ///
    /// Since Linux 6.15 the kernel gives up after a quarter of a second (`RES_DEF_TIMEOUT` in rqspinlock.c) if another
    /// processor holds the lock of the element's neighbours. A virtual processor may be stopped for longer, so this
    /// tries for up to five seconds. No failure beyond that is known, and nothing handles such a failure.
    func remove<Key: BitwiseCopyable>(_ key: Key) {
        for _ in 1...Self.removalAttempts {
            let result = withUnsafeBytes(of: key) { bpf_map_delete_elem(self.descriptor, $0.baseAddress) }
            if result == 0 || result == -ENOENT { return }
        }
    }

    private static let removalAttempts = 20

    /// The values of element 0 of a per-CPU array, one per possible CPU.
    func perCPUValues<Value: BitwiseCopyable>(as type: Value.Type) throws(CaptureError) -> [Value] {
        try self.perCPUValues(of: UInt32(0), as: type)
    }

    /// The values of one element of a per-CPU map, one per possible CPU.
    func perCPUValues<Key: BitwiseCopyable, Value: BitwiseCopyable>(
        of key: Key,
        as type: Value.Type
    ) throws(CaptureError) -> [Value] {
        let count = Int(libbpf_num_possible_cpus())
        let stride = (MemoryLayout<Value>.size + 7) & ~7
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count) * stride, alignment: 8)
        defer { buffer.deallocate() }
        try check("bpf_map_lookup_elem", self.name) {
            withUnsafeBytes(of: key) { bpf_map_lookup_elem(self.descriptor, $0.baseAddress, buffer.baseAddress) }
        }
        return (0..<count).map { buffer.loadUnaligned(fromByteOffset: $0 * stride, as: Value.self) }
    }

    /// Takes all values that are in a queue now, oldest first. If values are added meanwhile, this takes no more values
    /// in total than the queue can hold.
    func popAll<Value: BitwiseCopyable>(as type: Value.Type) -> [Value] {
        var values: [Value] = []
        withUnsafeTemporaryAllocation(byteCount: MemoryLayout<Value>.size, alignment: 8) { value in
            for _ in 0..<self.capacity {
                guard bpf_map_lookup_and_delete_elem(self.descriptor, nil, value.baseAddress) == 0 else { return }
                values.append(value.loadUnaligned(as: Value.self))
            }
        }
        return values
    }

    /// An element of an array.
    func value<Value: BitwiseCopyable>(at index: UInt32, as type: Value.Type) throws(CaptureError) -> Value {
        var index = index
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: MemoryLayout<Value>.size, alignment: 8)
        defer { buffer.deallocate() }
        try check("bpf_map_lookup_elem", self.name) {
            bpf_map_lookup_elem(self.descriptor, &index, buffer.baseAddress)
        }
        return buffer.loadUnaligned(as: Value.self)
    }

    /// Every key.
    func keys<Key: BitwiseCopyable>(as type: Key.Type) throws(CaptureError) -> [Key] {
        var keys: [Key] = []
        let next = UnsafeMutableRawBufferPointer.allocate(byteCount: MemoryLayout<Key>.size, alignment: 8)
        defer { next.deallocate() }
        var previous: UnsafeMutableRawPointer?
        while try self.moves(to: next.baseAddress, after: previous) {
            keys.append(next.loadUnaligned(as: Key.self))
            previous = next.baseAddress
        }
        return keys
    }

    /// - Parameter size: Size of the per-CPU map's value, a multiple of 8 bytes.
    func insertZeros<Key: BitwiseCopyable>(_ key: Key, perCPU size: Int) throws(CaptureError) {
        let zeros = [UInt8](repeating: 0, count: max(1, Int(libbpf_num_possible_cpus())) * size)
        try check("bpf_map_update_elem", self.name) {
            withUnsafeBytes(of: key) { bpf_map_update_elem(self.descriptor, $0.baseAddress, zeros, 0) }
        }
    }

    func set<Key: BitwiseCopyable, Value: BitwiseCopyable>(_ key: Key, to value: Value) throws(CaptureError) {
        try check("bpf_map_update_elem", self.name) {
            withUnsafeBytes(of: key) { key in
                withUnsafeBytes(of: value) { bpf_map_update_elem(self.descriptor, key.baseAddress, $0.baseAddress, 0) }
            }
        }
    }

    /// Overwrites all variables of a section.
    func setGlobals<Value: BitwiseCopyable>(_ value: Value) throws(CaptureError) { try self.set(UInt32(0), to: value) }
}
