import CLibbpf
import Glibc
import TrafficModel

/// A BPF object: opened from memory, its programs selected, loaded into the kernel. The object is unloaded when the
/// value goes away, and with the process at the latest, except for what was pinned (``PinDirectory``).
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
        let errno = CaptureError.text(ofErrno: -result)
        // libbpf: prog 'NAME': failed to load: -22
        guard let quoted = words.split(separator: "'", maxSplits: 2).dropFirst().first, words.contains("prog '") else {
            throw .unsupported(feature: "loading BPF programs", reason: "\(errno) (\(words))")
        }
        // Where the verifier refuses a program, its log ends with the reason and then its statistics.
        let verdict = log.last { $0.contains("BEGIN PROG LOAD LOG") }?.split(separator: "\n")
            .last { !$0.contains("PROG LOAD LOG") && !$0.hasPrefix("processed ") }
        throw .refused(program: String(quoted), reason: errno + (verdict.map { " (\($0))" } ?? ""))
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

    /// A map whose properties can be changed before ``load()``.
    borrowing func definition(ofMap name: String) throws(CaptureError) -> BPFMapDefinition {
        guard let map = bpf_object__find_map_by_name(self.object, name) else {
            throw .malformed("no BPF map named \(name)")
        }
        return BPFMapDefinition(map: map)
    }

    /// The maps, by name, after ``load()``.
    borrowing func maps() -> [String: BPFMap] {
        var maps: [String: BPFMap] = [:]
        var map = bpf_object__next_map(self.object, nil)
        while let current = map {
            let name = String(cString: bpf_map__name(current))
            if bpf_map__fd(current) >= 0 {
                maps[name] = BPFMap(
                    descriptor: bpf_map__fd(current),
                    name: name,
                    capacity: bpf_map__max_entries(current)
                )
            }
            map = bpf_object__next_map(self.object, current)
        }
        return maps
    }
}

/// A program of a ``BPFObject``. The value must not outlive the object.
struct BPFProgram {
    fileprivate let program: OpaquePointer

    var name: String { String(cString: bpf_program__name(self.program)) }
    /// `type/hook`, as in `fexit/inet_sendmsg`.
    var section: String { String(cString: bpf_program__section_name(self.program)) }

    var descriptor: Int32 { bpf_program__fd(self.program) }

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

/// A map of a ``BPFObject`` that is not loaded yet. The value must not outlive the object.
struct BPFMapDefinition {
    fileprivate let map: OpaquePointer

    private var name: String { String(cString: bpf_map__name(self.map)) }

    /// Sets the capacity in elements; of a ring buffer, in bytes.
    func setCapacity(_ capacity: UInt32) throws(CaptureError) {
        let result = bpf_map__set_max_entries(self.map, capacity)
        guard result == 0 else { throw .system(call: "bpf_map__set_max_entries", object: self.name, errno: -result) }
    }

    /// Makes loading omit this map. No loaded program may use the map.
    func leaveOut() throws(CaptureError) {
        let result = bpf_map__set_autocreate(self.map, false)
        guard result == 0 else { throw .system(call: "bpf_map__set_autocreate", object: self.name, errno: -result) }
    }

    /// Makes the map allocate memory only when an element is added.
    func allocateAsNeeded() throws(CaptureError) {
        let flags = bpf_map__map_flags(self.map) | UInt32(BPF_F_NO_PREALLOC)
        let result = bpf_map__set_map_flags(self.map, flags)
        guard result == 0 else { throw .system(call: "bpf_map__set_map_flags", object: self.name, errno: -result) }
    }

    /// Sets the constants of a section.
    func setInitial<Value: BitwiseCopyable>(_ value: Value) throws(CaptureError) {
        let result = withUnsafeBytes(of: value) { bpf_map__set_initial_value(self.map, $0.baseAddress, $0.count) }
        guard result == 0 else { throw .system(call: "bpf_map__set_initial_value", object: self.name, errno: -result) }
    }
}
