import CLibbpf
import Glibc
import TrafficModel

/// A BPF object: opened from memory, its programs selected, loaded into the kernel. The object is unloaded when the
/// value goes away, and with the process at the latest: nothing is pinned.
struct BPFObject: ~Copyable {
    private let object: OpaquePointer

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if libbpf does not accept the ELF file.
    init(elf: [UInt8]) throws(CaptureError) {
        // The name is what bpftool shows of our maps.
        guard let opened = elf.withUnsafeBytes({ shim_open_object($0.baseAddress, $0.count, "traffic") }) else {
            throw .system(call: "bpf_object__open_mem", object: "traffic", errno: errno)
        }
        self.object = opened
    }

    deinit {
        bpf_object__close(self.object)
    }

    /// Selects only the programs in `names` for loading. Call this before ``load()``.
    borrowing func select(programs names: Set<String>) {
        var program = bpf_object__next_program(self.object, nil)
        while let current = program {
            bpf_program__set_autoload(current, names.contains(String(cString: bpf_program__name(current))))
            program = bpf_object__next_program(self.object, current)
        }
    }

    /// Verifies and loads the selected programs, all or none.
    ///
    /// - Throws: ``CaptureError/refused(program:reason:)`` with libbpf's last message, if that message names the
    ///   program; otherwise ``CaptureError/unsupported(feature:reason:)``.
    borrowing func load() throws(CaptureError) {
        _ = LibbpfLog.take()
        let result = bpf_object__load(self.object)
        guard result < 0 else { return }
        let log = LibbpfLog.take()
        let words = log.last { $0.contains("failed to load") && $0.contains("prog") } ?? log.last ?? ""
        let reason = "\(CaptureError.text(ofErrno: -result)) (\(words))"
        // libbpf: prog 'NAME': failed to load: -22
        guard let quoted = words.split(separator: "'", maxSplits: 2).dropFirst().first, words.contains("prog '") else {
            throw .unsupported(feature: "loading BPF programs", reason: reason)
        }
        throw .refused(program: String(quoted), reason: reason)
    }

    /// For a test: makes the kernel refuse the program when it is loaded.
    borrowing func spoil(_ name: String) throws(CaptureError) {
        bpf_program__set_type(try self.program(name).program, BPF_PROG_TYPE_SOCKET_FILTER)
    }

    borrowing func program(_ name: String) throws(CaptureError) -> BPFProgram {
        guard let program = bpf_object__find_program_by_name(self.object, name) else {
            throw .malformed("no BPF program named \(name)")
        }
        return BPFProgram(program: program)
    }

    borrowing func map(_ name: String) throws(CaptureError) -> BPFMap {
        guard let map = bpf_object__find_map_by_name(self.object, name) else {
            throw .malformed("no BPF map named \(name)")
        }
        return BPFMap(map: map)
    }
}

/// A program of a ``BPFObject``. The value must not outlive the object.
struct BPFProgram {
    fileprivate let program: OpaquePointer

    var name: String { String(cString: bpf_program__name(self.program)) }
    /// `type/hook`, as in `fexit/inet_sendmsg`.
    var section: String { String(cString: bpf_program__section_name(self.program)) }

    var descriptor: Int32 { bpf_program__fd(self.program) }

    /// How often the kernel skipped this program because the program was running on that processor already.
    func missedRuns() throws(CaptureError) -> UInt64 {
        try ProgramCounters(ofProgram: self.descriptor, named: self.name).missed
    }

    /// Attaches to the hook that the section names.
    func attach() throws(CaptureError) -> BPFLink {
        try self.link("attach", bpf_program__attach(self.program))
    }

    func attach(toCgroup directory: borrowing OwnedDescriptor) throws(CaptureError) -> BPFLink {
        try self.link("attach to cgroup", bpf_program__attach_cgroup(self.program, directory.descriptor))
    }

    /// - Parameter event: A descriptor of perf_event_open(2). The link owns this descriptor from now on.
    func attach(toEvent event: Int32) throws(CaptureError) -> BPFLink {
        let link = bpf_program__attach_perf_event(self.program, event)
        if link == nil {
            let error = errno
            close(event)
            errno = error
        }
        return try self.link("attach", link)
    }

    /// - Parameter map: The map whose elements a program of `iter/bpf_sk_storage_map` or `iter/bpf_map_elem` walks.
    func attachIterator(over map: BPFMap? = nil) throws(CaptureError) -> BPFLink {
        guard let map else { return try self.link("attach", bpf_program__attach_iter(self.program, nil)) }
        return try self.link("attach", shim_attach_iterator(self.program, map.descriptor))
    }

    private func link(_ call: String, _ link: OpaquePointer?) throws(CaptureError) -> BPFLink {
        guard let link else {
            throw .refused(program: self.name, reason: "\(call) \(self.section): \(CaptureError.text(ofErrno: errno))")
        }
        return BPFLink(owning: link)
    }
}

/// A map of a ``BPFObject``. The value must not outlive the object.
struct BPFMap {
    fileprivate let map: OpaquePointer

    var descriptor: Int32 { bpf_map__fd(self.map) }
    var name: String { String(cString: bpf_map__name(self.map)) }
    /// The capacity of the map in elements; of a ring buffer, in bytes.
    var capacity: UInt32 { bpf_map__max_entries(self.map) }

    /// Sets the capacity in elements; of a ring buffer, in bytes. Call this before loading.
    func setCapacity(_ capacity: UInt32) throws(CaptureError) {
        let result = bpf_map__set_max_entries(self.map, capacity)
        guard result == 0 else { throw .system(call: "bpf_map__set_max_entries", object: self.name, errno: -result) }
    }

    /// Makes loading omit this map. Call this before loading. No loaded program may use the map.
    func leaveOut() throws(CaptureError) {
        let result = bpf_map__set_autocreate(self.map, false)
        guard result == 0 else { throw .system(call: "bpf_map__set_autocreate", object: self.name, errno: -result) }
    }

    /// Makes the map allocate memory only when an element is added. Call this before loading.
    func allocateAsNeeded() throws(CaptureError) {
        let flags = bpf_map__map_flags(self.map) | UInt32(BPF_F_NO_PREALLOC)
        let result = bpf_map__set_map_flags(self.map, flags)
        guard result == 0 else { throw .system(call: "bpf_map__set_map_flags", object: self.name, errno: -result) }
    }

    /// Calls `body` for every element, with key and value bytes.
    func forEach(
        keySize: Int,
        valueSize: Int,
        _ body: (_ key: RawSpan, _ value: RawSpan) -> Void
    ) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * keySize + valueSize, alignment: 8)
        defer { buffer.deallocate() }
        let key = UnsafeMutableRawBufferPointer(rebasing: buffer[0..<keySize])
        let next = UnsafeMutableRawBufferPointer(rebasing: buffer[keySize..<2 * keySize])
        let value = UnsafeMutableRawBufferPointer(rebasing: buffer[(2 * keySize)...])
        var previous: UnsafeMutableRawPointer?
        while bpf_map_get_next_key(self.descriptor, previous, next.baseAddress) == 0 {
            key.copyMemory(from: UnsafeRawBufferPointer(next))
            previous = key.baseAddress
            guard bpf_map_lookup_elem(self.descriptor, key.baseAddress, value.baseAddress) == 0 else { continue }
            body(
                RawSpan(_unsafeBytes: UnsafeRawBufferPointer(key)),
                RawSpan(_unsafeBytes: UnsafeRawBufferPointer(value))
            )
        }
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
    func keys<Key: BitwiseCopyable>(as type: Key.Type) -> [Key] {
        var keys: [Key] = []
        withUnsafeTemporaryAllocation(byteCount: MemoryLayout<Key>.size, alignment: 8) { next in
            var previous: UnsafeMutableRawPointer?
            while bpf_map_get_next_key(self.descriptor, previous, next.baseAddress) == 0 {
                keys.append(next.loadUnaligned(as: Key.self))
                previous = next.baseAddress
            }
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

    /// Sets the constants of a section. Call this before loading.
    func setInitial<Value: BitwiseCopyable>(_ value: Value) throws(CaptureError) {
        let result = withUnsafeBytes(of: value) { bpf_map__set_initial_value(self.map, $0.baseAddress, $0.count) }
        guard result == 0 else { throw .system(call: "bpf_map__set_initial_value", object: self.name, errno: -result) }
    }

    /// Overwrites all variables of a section.
    func setGlobals<Value: BitwiseCopyable>(_ value: Value) throws(CaptureError) { try self.set(UInt32(0), to: value) }
}

/// An attached program. The program is detached when the value goes away.
struct BPFLink: ~Copyable {
    private let link: OpaquePointer

    init(owning link: OpaquePointer) {
        self.link = link
    }

    deinit {
        bpf_link__destroy(self.link)
    }

    /// For an iterator's link: runs the program over everything once and hands its output to `body` piece by piece.
    borrowing func iterate(_ name: String, _ body: (RawSpan) throws(CaptureError) -> Void) throws(CaptureError) {
        let descriptor = try check("bpf_iter_create", name) { bpf_iter_create(bpf_link__fd(self.link)) }
        try OwnedDescriptor(owning: descriptor).readAll(chunk: 64 << 10, name: name, body)
    }
}
