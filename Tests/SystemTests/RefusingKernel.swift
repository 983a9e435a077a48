import Foundation
import TestSupport
import Testing

/// A kernel that refuses some BPF programs with EPERM, as some builds do (Tests/Tools/refuse).
enum RefusingKernel {
    /// The library that answers for the kernel, compiled once.
    private static let library = Result { () throws -> URL in
        let source = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Tools/refuse/refuse.c")
        let library = FileManager.default.temporaryDirectory.appending(path: "refuse-\(UUID().uuidString).so")
        _ = try Tool.wait(
            for: "clang",
            [
                "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library.path, source.path, "-ldl",
                "-lbpf",
            ]
        )
        return library
    }

    /// What starts a program beside such a kernel.
    ///
    /// - Parameter refused: As REFUSE_BPF in refuse.c.
    static func launcher(_ refused: String, at moment: String = "load") throws -> (program: URL, arguments: [String]) {
        let environment = [
            "LD_PRELOAD=\(try self.library.get().path)", "REFUSE_BPF=\(refused)", "REFUSE_BPF_AT=\(moment)",
        ]
        return (URL(filePath: "/usr/bin/env"), environment)
    }

    /// Every iterator over the elements of a map: what the builds refuse that were met.
    static let withoutWalksOverMaps = "iter/bpf_sk_storage_map,iter/bpf_map_elem,iter/sockmap"
}
