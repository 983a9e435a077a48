import CLibbpf
import TrafficDocuments
import TrafficModel

/// A loaded program.
struct LoadedProgram {
    let name: String
    /// `type/hook`, as in `fexit/inet_sendmsg`.
    let section: String
    let descriptor: Int32

    init(_ program: BPFProgram) {
        (self.name, self.section, self.descriptor) = (program.name, program.section, program.descriptor)
    }

    init(name: String, section: String, descriptor: Int32) {
        (self.name, self.section, self.descriptor) = (name, section, descriptor)
    }

    /// How often the kernel skipped this program because the program was running on that processor already.
    func missedRuns() throws(CaptureError) -> UInt64 {
        try ProgramCounters(ofProgram: self.descriptor, named: self.name).missed
    }
}

/// The attached programs of a method.
struct BPFLinks: ~Copyable {
    private var links: [Box] = []
    private(set) var programs: [LoadedProgram] = []
    /// The programs that the daemon runs.
    var iterators: [BPFIterator] = []
    /// By program: the program whose twin it is.
    var twins: [String: String] = [:]
    /// Why some returns are missed when many calls wait at a time.
    private(set) var narrowReturns: String?
    private var tracing: TracingDirectory?

    /// Arrays hold no noncopyable values yet.
    private final class Box {
        // The link comes first: the event can't be removed while a program is attached to it.
        let link: BPFLink
        let event: ReturnProbe?

        init(_ link: consuming BPFLink, of event: consuming ReturnProbe? = nil) {
            self.link = link
            self.event = event
        }
    }

    mutating func attach(_ program: BPFProgram) throws(CaptureError) {
        self.links.append(Box(try program.attach()))
        self.programs.append(LoadedProgram(program))
    }

    mutating func openTracingDirectory() {
        do throws(CaptureError) {
            let directory = try TracingDirectory()
            ReturnProbe.removeStale(in: directory)
            self.tracing = directory
        } catch {
            self.narrowReturns = "\(error)"
        }
    }

    /// Attaches a program to the returns of a function. If the probe can't have room for many calls, it has room for a
    /// few, and ``narrowReturns`` says so.
    mutating func attach(_ program: BPFProgram, toReturnOf function: String) throws(CaptureError) {
        if let link = self.wideLink(program, function) {
            self.links.append(link)
        } else {
            self.links.append(Box(try program.attach()))
        }
        self.programs.append(LoadedProgram(program))
    }

    private mutating func wideLink(_ program: BPFProgram, _ function: String) -> Box? {
        guard let tracing else { return nil }
        do throws(CaptureError) {
            let event = try ReturnProbe(function: function, program: program.name, in: tracing)
            let link = try event.attach(program)
            return Box(link, of: event)
        } catch {
            self.narrowReturns = "\(error)"
            return nil
        }
    }

    mutating func attach(_ program: BPFProgram, toCgroup directory: borrowing OwnedDescriptor) throws(CaptureError) {
        self.links.append(Box(try program.attach(toCgroup: directory)))
        self.programs.append(LoadedProgram(program))
    }

    /// Of the links, in the order of ``programs``.
    var descriptors: [Int32] { self.links.map { $0.link.descriptor } }
}
