import Foundation
import Glibc
import TestSupport

/// A BPF file system of the test's own, mounted as long as this object lives.
public final class BPFFileSystem {
    public let path = temporaryPath("trafficd-pins")

    public init() throws {
        guard mkdir(self.path, 0o700) == 0, unsafe mount("bpf", self.path, "bpf", 0, nil) == 0 else {
            throw Program.Failure(description: "no BPF file system: errno \(errno)")
        }
    }

    deinit {
        umount2(self.path, Int32(MNT_DETACH))
        rmdir(self.path)
    }
}
