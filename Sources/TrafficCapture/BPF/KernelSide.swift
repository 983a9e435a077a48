import CTrafficABI
import Glibc
import TrafficModel

/// What one capture has in the kernel: maps, attached programs and iterators. This process has loaded them, or an
/// earlier daemon has and left them pinned (``PinDirectory``).
final class KernelSide {
    /// What the maps and programs themselves do not say.
    struct Description: Codable, Hashable {
        struct Program: Codable, Hashable {
            var name: String
            var section: String
            /// The program whose twin this is.
            var twinOf: String?
        }

        /// As ``traffic_live_settings``'s `capture`.
        var capture: UInt64
        /// As ``KernelSide/layout``.
        var layout: UInt64
        var method: CaptureMethod
        /// Why no better method is in use.
        var reason: String?
        var wire: WireCounting
        /// What was asked for. The kernel may have refused programs that this needs.
        var wantedWire: WireCounting
        var blindSpots: [String]
        var attached: [Program]
        /// The programs that the daemon itself runs again and again.
        var iterated: [Program]
        /// The capacity of each map, by name: as ``BPFMap/capacity``.
        var maps: [String: UInt32]
    }

    let description: Description
    let attached: [LoadedProgram]
    /// Descriptors of the links of ``attached``, in the same order.
    let attachedLinks: [Int32]
    /// By program.
    let iterators: [String: BPFIterator]
    let maps: [String: BPFMap]
    /// Owns the descriptors of the maps, programs and links.
    private let owner: AnyObject

    init(
        _ description: Description,
        attached: [LoadedProgram],
        attachedLinks: [Int32],
        iterators: [BPFIterator],
        maps: [String: BPFMap],
        owner: AnyObject
    ) {
        (self.description, self.attached, self.attachedLinks) = (description, attached, attachedLinks)
        self.iterators = Dictionary(uniqueKeysWithValues: iterators.map { ($0.program.name, $0) })
        (self.maps, self.owner) = (maps, owner)
    }

    /// The programs that the daemon runs again and again.
    var iterated: [LoadedProgram] {
        self.iterators.values.map(\.program).sorted { $0.name < $1.name }
    }

    /// Whether a sweep lists all sockets. Otherwise it lists the sockets that processes hold, and a ``NamespaceWalk``
    /// lists those that the network namespaces have.
    var sweepsAllSockets: Bool { self.iterators[BPFPrograms.sweep] != nil }

    /// Whether that walk lists all TCP and UDP sockets, as far as the method counts them.
    var listsAllOfNamespaces: Bool {
        self.listsOfNamespaces.count == (self.description.method == .lifecycle ? 1 : 2)
    }

    /// The programs of that walk.
    var listsOfNamespaces: [BPFIterator] {
        [BPFPrograms.sweepOfTCPSockets, BPFPrograms.sweepOfUDPSockets].compactMap { self.iterators[$0] }
    }

    /// A number that changes with everything on which daemon and programs must agree: the programs themselves and the
    /// structs that they share with the daemon.
    static func layout(_ method: CaptureMethod) -> UInt64 {
        // FNV-1a, because nobody attacks it: who can load programs needs no collision.
        method.object.elf().reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }

    func iterator(_ program: String) throws(CaptureError) -> BPFIterator {
        guard let iterator = self.iterators[program] else { throw .malformed("no BPF iterator named \(program)") }
        return iterator
    }

    func map(_ name: String) throws(CaptureError) -> BPFMap {
        guard let map = self.maps[name] else { throw .malformed("no BPF map named \(name)") }
        return map
    }

    /// How many calls the attached programs have missed since they were loaded, at most.
    func missedRuns() throws(CaptureError) -> UInt64 {
        var skipped: [UInt64] = []
        for program in self.attached { skipped.append(try program.missedRuns()) }
        return Self.missedCalls(self.description.attached, skipped: skipped, .ofThisKernel)
    }

    /// A program and its twin miss a call together only where the kernel preempts tasks inside programs. Elsewhere one
    /// task at most is inside one of the two when a softirq ends or begins a connection, so the other copy sees that.
    /// The kernel counts what each copy missed, and not which calls: both counts grow though each copy missed other
    /// calls. Thus the smaller count is what both have missed at most.
    ///
    /// - Parameter skipped: What the kernel says of each program (`bpf_prog_info.recursion_misses`).
    static func missedCalls(
        _ programs: [Description.Program],
        skipped: [UInt64],
        _ facts: KernelFacts
    ) -> UInt64 {
        let copies = Dictionary(grouping: zip(programs, skipped)) { program, _ in program.twinOf ?? program.name }
        return copies.values.reduce(0) { missed, copies in
            let isWatched = copies.count > 1 && !facts.preemptsTracepoints
            return missed +| (isWatched ? 0 : copies.map(\.1).min() ?? 0)
        }
    }
}

extension KernelSide {
    /// Whether the capture can go on without the daemon. Probes are events of the process that opened them. And what
    /// passed the interfaces is partly in the daemon's memory.
    var canOutliveDaemon: Bool { self.description.method != .kprobe && self.description.wire != .audited }

    private final class Loaded {
        let programs: LoadedPrograms
        init(_ programs: consuming LoadedPrograms) { self.programs = programs }
    }

    /// Loads and attaches the programs, and gives every existing socket its baseline.
    ///
    /// - Returns: Also the settings that the programs have, with `baseline_done` set: the caller writes them.
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if this kernel refuses a program that the method needs.
    static func load(
        _ method: CaptureMethod,
        reason: String?,
        wire: WireCounting,
        faults: LoadedPrograms.Faults
    ) throws(CaptureError) -> (kernel: KernelSide, liveSettings: traffic_live_settings) {
        let loaded = Loaded(try LoadedPrograms(method, wire: wire, faults: faults))
        let maps = loaded.programs.object.maps()
        guard let settingsMap = maps[".data.live"] else { throw .malformed("the BPF object lacks a map") }
        var liveSettings = traffic_live_settings()
        // A JSON number holds 53 bits.
        liveSettings.capture = UInt64.random(in: 1..<1 << 53)
        try settingsMap.setGlobals(liveSettings)
        var iterators = loaded.programs.links.iterators
        for iterator in iterators where iterator.program.name == BPFPrograms.adoptionOfHeldSockets {
            try iterator.run()
        }
        var blindSpots = loaded.programs.blindSpots
        for iterator in iterators where iterator.program.name == BPFPrograms.adoptionOfTCPSockets {
            // In another process too: whoever keeps the lock of a socket must not stop the start.
            let walk = try NamespaceWalk([iterator])
            try walk.begin(.all, [BPFPrograms.adoptionOfTCPSockets])
            let findings = try walk.wait()
            guard findings?.failures.isEmpty != true, case .substitute(_, let spot?) = BPFPrograms.adoption.without
            else { continue }
            let cause = findings == nil ? "a program keeps the lock of a socket" : "not every namespace could be read"
            blindSpots.append("\(spot) (\(iterator.program.name): \(cause))")
        }
        // Only the start runs this one.
        iterators.removeAll { $0.program.name == BPFPrograms.adoptionOfTCPSockets }
        let links = loaded.programs.links.programs
        let twins = loaded.programs.links.twins
        let description = Description(
            capture: liveSettings.capture,
            layout: Self.layout(method),
            method: method,
            reason: reason,
            wire: loaded.programs.wire,
            wantedWire: wire,
            blindSpots: blindSpots,
            attached: links.map { Description.Program(name: $0.name, section: $0.section, twinOf: twins[$0.name]) },
            iterated: iterators.map { Description.Program(name: $0.program.name, section: $0.program.section) },
            maps: maps.mapValues(\.capacity)
        )
        let kernel = KernelSide(
            description,
            attached: links,
            attachedLinks: loaded.programs.links.descriptors,
            iterators: iterators,
            maps: maps,
            owner: loaded
        )
        liveSettings.baseline_done = 1
        return (kernel, liveSettings)
    }
}
