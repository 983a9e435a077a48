import Foundation
import GroundTruth
import Testing

/// A kernel that lacks something: the test hides a directory in a mount namespace of the daemon's own.
@Suite(.tags(.kernel), .serialized, .needsRoot, .needs("unshare"))
struct BareKernelTests {
    /// Runs the daemon with an empty `directory`. Returns the daemon's answer to a request for `path`.
    private func run(
        hiding directory: String,
        method: String,
        asking path: String = "/v1/doctor"
    ) async throws -> (code: Int32, error: String, answer: String) {
        let runtime = FileManager.default.temporaryDirectory.appending(
            path: "trafficd-bare-\(UUID().uuidString.prefix(8))"
        )
        defer { try? FileManager.default.removeItem(at: runtime) }
        let script = """
            mount -t tmpfs none \(directory) || exit 99
            \(Machine.programs.daemon.path) run --method \(method) --runtime-directory \(runtime.path) &
            daemon=$!
            for try in $(seq 3000); do
                curl --silent --fail --unix-socket \(runtime.path)/control.sock http://localhost\(path) && break
                kill -0 $daemon 2>/dev/null || break
                sleep 0.1
            done
            kill -TERM $daemon 2>/dev/null
            wait $daemon
            """
        let result = try await tool("unshare", ["--mount", "sh", "-c", script])
        return (result.code, result.error, result.output)
    }

    @Test("without BTF the daemon refuses a BPF method, with a message of one line", .needsBPF)
    func noBTF() async throws {
        let result = try await self.run(hiding: "/sys/kernel/btf", method: "tracepoint")
        #expect(result.code == 1)
        #expect(result.error.split(separator: "\n").count == 1, "\(result.error)")
        #expect(result.error.contains("/sys/kernel/btf/vmlinux is missing"))
    }

    @Test("without BTF the best method is poll, and doctor says why and what to do")
    func pollWithoutBTF() async throws {
        let result = try await self.run(hiding: "/sys/kernel/btf", method: "auto")
        #expect(result.code == 0)
        #expect(result.answer.contains(#""method":"poll""#))
        #expect(result.answer.contains("BTF"))
        #expect(result.answer.contains("CONFIG_DEBUG_INFO_BTF"))
    }

    @Test(
        "bpffs, tracefs and mounted cgroups are not needed",
        .needsBPF,
        arguments: ["/sys/fs/bpf", "/sys/kernel/tracing", "/sys/fs/cgroup"]
    )
    func noMounts(directory: String) async throws {
        let result = try await self.run(hiding: directory, method: Machine.method)
        #expect(result.code == 0, "\(result.error)")
        #expect(result.answer.contains("cgroup/sock_release"))
    }
}
