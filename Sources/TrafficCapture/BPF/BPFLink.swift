import CLibbpf

/// An attached program. The program is detached when the value goes away, unless the link is pinned.
struct BPFLink: ~Copyable {
    private let link: OpaquePointer

    init(owning link: OpaquePointer) {
        self.link = link
    }

    deinit {
        bpf_link__destroy(self.link)
    }

    var descriptor: Int32 { bpf_link__fd(self.link) }

    /// For an iterator's link: runs the program over everything once and hands its output to `body` piece by piece.
    borrowing func iterate(_ name: String, _ body: (RawSpan) throws(CaptureError) -> Void) throws(CaptureError) {
        let descriptor = try check("bpf_iter_create", name) { bpf_iter_create(self.descriptor) }
        try OwnedDescriptor(owning: descriptor).readAll(chunk: 64 << 10, name: name, body)
    }
}
