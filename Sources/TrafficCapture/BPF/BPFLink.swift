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
}
