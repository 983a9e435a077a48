import CTrafficABI
import TrafficModel

/// The loaded and attached programs of a method. They are detached and unloaded when the value goes away.
struct LoadedPrograms: ~Copyable {
    /// For tests: faults of the kernel and small maps.
    struct Faults {
        /// Programs that are not attached, nor their twins. The kernel sometimes skips a program for one call; this
        /// does the same for all calls.
        var leftOut: Set<String> = []
        /// Programs that the kernel is made to refuse.
        var refused: Set<String> = []
        /// The sweep lists held sockets, as on a kernel where the walk through the storage is not safe.
        var sweepsHeldSockets = false
        /// Bytes of the ring of closed sockets, a power of two and at least a page.
        var ringBytes: UInt32?
        /// Elements of every hash map.
        var mapElements: UInt32?
        /// Elements of the map of interfaces.
        var interfaceElements: UInt32?
        /// Elements of the maps of rows, by process and by user.
        var rowElements: UInt32?
    }

    // The links come first, because they depend on the programs of the object.
    let links: BPFLinks
    let object: BPFObject
    let sweep: Sweep
    let blindSpots: [String]

    /// Which sockets the sweep lists.
    enum Sweep: String, Codable {
        /// All sockets, from the storage or the hash.
        case all = "sweep_sockets"
        /// Only sockets that processes hold, because the kernel's walk through the storage may follow a null pointer
        /// (`bpf/iterate.bpf.h`).
        case held = "sweep_held_sockets"

        /// - Parameter object: Which object is in use. The kernel walks a hash with another iterator, which is safe.
        init(_ object: EmbeddedObject, _ faults: Faults) {
            let isSafe = object == .hash || HostFacts.kernelVersion < (7, 0)
            self = isSafe && !faults.sweepsHeldSockets ? .all : .held
        }

        var blindSpots: [String] {
            guard self == .held else { return [] }
            return [
                "open sockets that no process holds (not accepted yet, sent by SCM_RIGHTS and not received, io_uring's own files): they count when they are held again or close"
            ]
        }
    }
    /// Which packets the attached programs count.
    let wire: WireCounting

    /// Loads and attaches every program of the method. If the kernel refuses a program that the method does not need,
    /// the method goes on without that program, and the blind spots say what is no longer seen.
    ///
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if the kernel refuses a program that the method needs.
    init(_ method: CaptureMethod, wire: WireCounting, faults: Faults) throws(CaptureError) {
        var hooks: [BPFPrograms.Hook] = []
        let sweep = Sweep(method.object, faults)
        var blindSpots = BPFPrograms.blindSpots(of: method) + sweep.blindSpots
        for hook in BPFPrograms.of(method).hooks {
            if hook.isKnownToKernel {
                hooks.append(hook)
            } else if let blindSpot = hook.blindSpot {
                blindSpots.append("\(blindSpot) (the kernel has no \(hook.place))")
            } else if !BPFPrograms.dispensable.contains(hook.program) {
                throw .unsupported(feature: "method \(method.rawValue)", reason: "the kernel has no \(hook.place)")
            }
        }
        let unused = BPFPrograms.unused(with: wire)
        hooks.removeAll { unused.contains($0.program) }
        switch wire {
        case _ where method == .lifecycle: blindSpots.append(BPFPrograms.packetBlindSpot)
        case .estimated: blindSpots.append("\(BPFPrograms.packetBlindSpot) (`--wire estimated`)")
        case .exact: blindSpots.append("\(BPFPrograms.interfaceBlindSpot) (`--wire audited` counts them)")
        case .audited: break
        }
        while true {
            do throws(CaptureError) {
                let object = try LoadedPrograms.load(method, Set(hooks.map(\.program)), sweep, faults)
                let wanted = hooks.filter { !faults.leftOut.contains($0.twinOf ?? $0.program) }
                self.links = try LoadedPrograms.attach(wanted, object)
                self.object = object
                break
            } catch .refused(let program, let reason) {
                guard let blindSpot = hooks.first(where: { $0.program == program })?.blindSpot else {
                    throw .unsupported(feature: "method \(method.rawValue)", reason: "\(program): \(reason)")
                }
                blindSpots.append("\(blindSpot) (\(program): \(reason))")
                let companions = BPFPrograms.companions(of: program)
                hooks.removeAll { companions.contains($0.program) }
            }
        }
        if let reason = self.links.narrowReturns {
            blindSpots.append("\(BPFPrograms.narrowReturnsBlindSpot) (\(reason))")
        }
        self.sweep = sweep
        self.blindSpots = blindSpots
        self.wire = WireCounting(by: Set(hooks.map(\.program)))
    }

    private static func load(
        _ method: CaptureMethod,
        _ programs: Set<String>,
        _ sweep: Sweep,
        _ faults: Faults
    ) throws(CaptureError) -> BPFObject {
        let embedded = method.object
        let object = try BPFObject(elf: embedded.elf())
        object.select(programs: programs.union(BPFPrograms.iterators).union([sweep.rawValue]))
        for program in faults.refused.intersection(programs) { try object.spoil(program) }
        // The type of this map does not exist before Linux 5.11, and only twins use the map.
        if embedded == .storage && !Preemption.reachesTracepoints {
            try object.definition(ofMap: "counted_calls").leaveOut()
        }
        if embedded == .hash && HostFacts.kernelVersion >= (6, 1) { try self.widen(object) }
        if let bytes = faults.ringBytes { try object.definition(ofMap: "closed").setCapacity(bytes) }
        if let elements = faults.mapElements {
            for map in ["owners", "deferred", "interfaces", "early", "executed"] {
                try object.definition(ofMap: map).setCapacity(elements)
            }
        }
        if let elements = faults.interfaceElements {
            try object.definition(ofMap: "interfaces").setCapacity(elements)
        }
        if let elements = faults.rowElements {
            for map in ["rows", "user_rows"] { try object.definition(ofMap: map).setCapacity(elements) }
        }
        let wire = WireCounting(by: programs)
        try object.definition(ofMap: ".rodata.chosen").setInitial(
            traffic_chosen(
                estimates_wire: wire == .estimated ? 1 : 0,
                counts_interfaces: wire == .audited ? 1 : 0,
                counts_streams: method == .lifecycle ? 1 : 0,
                pad: 0
            )
        )
        try object.load()
        return object
    }

    /// Since Linux 6.1 (ee4ed53c5eb6 "bpf: Convert percpu hash map to per-cpu bpf_mem_alloc" and its siblings) probes
    /// may use maps that allocate memory as needed. So these maps can have more elements at no cost.
    private static func widen(_ object: borrowing BPFObject) throws(CaptureError) {
        for (name, elements) in [("sockets", 1 << 18), ("owners", 1 << 16), ("deferred", 1 << 16)] as [(String, UInt32)]
        {
            let map = try object.definition(ofMap: name)
            try map.allocateAsNeeded()
            try map.setCapacity(elements)
        }
    }

    private static func attach(
        _ hooks: [BPFPrograms.Hook],
        _ object: borrowing BPFObject
    ) throws(CaptureError) -> BPFLinks {
        var links = BPFLinks()
        if hooks.contains(where: \.isReturnProbe) { links.openTracingDirectory() }
        for hook in hooks {
            let program = try object.program(hook.program)
            links.twins[hook.program] = hook.twinOf
            switch hook.place {
            case .target, .entry:
                try links.attach(program)
            case .exit(let function):
                try links.attach(program, toReturnOf: function)
            case .cgroup:
                do throws(CaptureError) {
                    try links.attach(program, toCgroup: try CgroupRoot.open())
                } catch .unsupported(let feature, let reason) {
                    throw .refused(program: hook.program, reason: "\(feature): \(reason)")
                }
            }
        }
        return links
    }
}

extension WireCounting {
    /// - Parameter programs: The programs that the kernel has not refused.
    fileprivate init(by programs: Set<String>) {
        guard programs.isSuperset(of: BPFPrograms.packets) else {
            self = .estimated
            return
        }
        self = programs.isSuperset(of: BPFPrograms.interfaces) ? .audited : .exact
    }
}

extension CaptureMethod {
    /// The object that contains the programs of the method.
    var object: EmbeddedObject { self == .kprobe ? .hash : .storage }
}
