import CLibbpf

/// A program that the daemon runs over a list of the kernel's.
final class BPFIterator {
    let program: LoadedProgram
    private let link: BPFLink

    init(_ program: LoadedProgram, _ link: consuming BPFLink) {
        self.program = program
        self.link = link
    }

    /// Links the program, and opens its list once: a kernel may refuse either.
    ///
    /// - Parameter map: The map whose elements the program walks; `nil` for another list.
    /// - Throws: ``CaptureError/refused(program:reason:)``.
    convenience init(_ program: BPFProgram, over map: BPFMap?) throws(CaptureError) {
        self.init(LoadedProgram(program), try program.attachIterator(over: map))
        do throws(CaptureError) {
            _ = try self.open()
        } catch {
            throw .refused(program: program.name, reason: "\(error)")
        }
    }

    var linkDescriptor: Int32 { self.link.descriptor }

    func open() throws(CaptureError) -> OwnedDescriptor {
        try OwnedDescriptor(iterating: self.link.descriptor, name: self.program.name)
    }

    /// Runs the program over the whole list once and hands its output to `body` piece by piece.
    func run(_ body: (RawSpan) throws(CaptureError) -> Void = { _ in }) throws(CaptureError) {
        try self.open().readAll(chunk: Self.chunk, name: self.program.name, body)
    }

    /// In bytes.
    static let chunk = 64 << 10
}

extension OwnedDescriptor {
    /// The list of an iterator. A list of sockets is that of the calling thread's network namespace.
    init(iterating link: Int32, name: String) throws(CaptureError) {
        self.init(owning: try check("bpf_iter_create", name) { bpf_iter_create(link) })
    }
}
