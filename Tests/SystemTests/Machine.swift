import Foundation
import GroundTruth
import TestSupport
import TestTraits
import Testing

/// Whole programs on the real kernel. The tests run one after the other, because they do what disturbs other tests: they
/// flood the kernel side, have small limits, kill daemons, or look at everything that is in the kernel.
@Suite(.tags(.kernel), .serialized, SocketFlood.needsRecords)
enum SystemTests {}

/// Whole programs on the real kernel, whose tests are exact beside any other daemon and its traffic: page, history,
/// alerts, metrics, names. They run one after the other too, and scripts/test runs them in a process beside that of
/// ``SystemTests``. A new suite belongs here, unless it does what is said there.
@Suite(.tags(.kernel), .serialized, SocketFlood.needsRecords)
enum SurfaceTests {}

/// The scenarios of the generator, compared with what its calls returned. They disturb no other tests, and run one after
/// the other in the process of ``SurfaceTests``, because those of ``SystemTests`` take longest.
@Suite(.tags(.kernel), .serialized, SocketFlood.needsRecords)
enum ScenarioTests {}

/// What this machine lets the tests do. Each property is probed once.
enum Machine {
    /// The programs of the same build as the tests.
    static let programs = Programs(
        directory: URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
    )

    static let isRoot = geteuid() == 0

    /// Whether this kernel runs no BPF program while process 1 runs. A connection that begins meanwhile has no counters.
    static let hidesProcess1 =
        (try? String(contentsOfFile: "/proc/sys/kernel/init_private", encoding: .utf8)).map { !$0.hasPrefix("0") }
        ?? false

    /// A user of whom only the present test has processes: tests that run at the same moment are root or nobody.
    static let stranger: UInt32 = 54_322

    /// The capture method to test: the value of TRAFFICD_TEST_METHOD, if it is set.
    static let method = ProcessInfo.processInfo.environment["TRAFFICD_TEST_METHOD"] ?? "auto"

    /// BPF with type information: what every method but `poll` needs.
    static let hasBPF =
        Machine.isRoot && Machine.method != "poll" && FileManager.default.fileExists(atPath: "/sys/kernel/btf/vmlinux")

    static func path(of tool: String) -> URL? { SystemTool.path(tool) }

    static func has(_ tools: String...) -> Bool {
        tools.allSatisfy { Machine.path(of: $0) != nil }
    }

    /// scripts/test installs every tool first and sets this. Then a missing tool is a failure, and no reason to skip a
    /// test.
    static let mustNotSkip = ProcessInfo.processInfo.environment["TRAFFICD_TEST_COMPLETE"] == "1"

    static let scenarios = (try? Generator.scenarios(Machine.programs)) ?? []
}

extension Trait where Self == ConditionTrait {
    static var needsBPF: Self {
        .enabled(if: Machine.hasBPF || Machine.mustNotSkip, "needs root and a kernel with BPF type information")
    }

    static var needsRoot: Self { .enabled(if: Machine.isRoot || Machine.mustNotSkip, "needs root") }

    static func needs(_ tools: String...) -> Self {
        let missing = tools.filter { Machine.path(of: $0) == nil }
        return .enabled(if: missing.isEmpty || Machine.mustNotSkip, "not installed: \(missing.joined(separator: ", "))")
    }
}

extension Trait where Self == SharedDaemonTrait {
    /// The tests of the suite have one daemon, ``SharedDaemon/ofSuite``.
    static var sharesDaemon: Self { SharedDaemonTrait() }
}

extension Tag {
    /// Starts a daemon on the real kernel.
    @Tag static var kernel: Self
    /// Compares the daemon's counts with counts of another program.
    @Tag static var peer: Self
}

/// Runs a tool that the machine must have.
func tool(_ name: String, _ arguments: [String]) async throws -> (code: Int32, output: String, error: String) {
    let path = try #require(Machine.path(of: name), "\(name) is not installed")
    let result = try await Program.run(path, arguments)
    return (result.code, String(decoding: result.output, as: UTF8.self), result.error)
}
