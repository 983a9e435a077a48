import CLibbpf
import Foundation
import TestSupport
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("Embedded BPF objects")
struct EmbeddedObjectTests {
    /// A program as the object file has it, before libbpf fits it to the kernel.
    struct Program {
        var name: String
        var section: String
        var instructions: [bpf_insn]
    }

    static func programs(in embedded: EmbeddedObject) throws -> [Program] {
        let elf = embedded.elf()
        let object = try #require(elf.withUnsafeBytes { shim_open_object($0.baseAddress, $0.count, "traffic") })
        defer { bpf_object__close(object) }
        var programs: [Program] = []
        var next = bpf_object__next_program(object, nil)
        while let program = next {
            programs.append(
                Program(
                    name: String(cString: bpf_program__name(program)),
                    section: String(cString: bpf_program__section_name(program)),
                    instructions: Array(
                        UnsafeBufferPointer(start: bpf_program__insns(program), count: bpf_program__insn_cnt(program))
                    )
                )
            )
            next = bpf_object__next_program(object, program)
        }
        return programs
    }

    @Test("every program of a method is in its object, made for its hook", arguments: CaptureMethod.allCases)
    func programs(method: CaptureMethod) throws {
        let sections = Dictionary(
            uniqueKeysWithValues: try Self.programs(in: method.object).map { ($0.name, $0.section) }
        )
        for hook in BPFPrograms.of(method) {
            let section = try #require(sections[hook.program], "\(hook.program)")
            switch hook.place {
            case .target(let target, BPF_TRACE_FEXIT): #expect(section == "fexit/\(target)")
            case .target(let target, _): #expect(section == "tp_btf/\(target)")
            case .entry(let function): #expect(section == "kprobe/\(function)")
            case .exit(let function): #expect(section == "kretprobe/\(function)")
            case .cgroup: #expect(section.hasPrefix("cgroup"))
            case .list(let list): #expect(section == "iter/\(list)")
            case .sockets: #expect(section == (method == .kprobe ? "iter/bpf_map_elem" : "iter/bpf_sk_storage_map"))
            }
        }
    }

    /// Linux 5.10 refuses a whole program for one of the atomic operations that came with 5.12 (5ffa25502b5a, 5ca419f2864a).
    @Test("the object for old kernels has no atomic operation but additions without a result")
    func instructions() throws {
        var additions = 0
        for program in try Self.programs(in: .hash) where !program.name.isEmpty {
            // Before Linux 5.12 this opcode means only an atomic addition, and `imm` must be 0.
            let atomic = program.instructions.filter {
                Int32($0.code) & 0x07 == BPF_STX && Int32($0.code) & 0xe0 == BPF_ATOMIC
            }
            #expect(atomic.allSatisfy { $0.imm == 0 }, "\(program.name)")
            additions += atomic.count
        }
        #expect(additions > 0)
        // The object for newer kernels has such operations; otherwise this test would prove nothing.
        let newer = try Self.programs(in: .storage).flatMap(\.instructions).filter {
            Int32($0.code) & 0x07 == BPF_STX && Int32($0.code) & 0xe0 == BPF_ATOMIC && $0.imm != 0
        }
        #expect(!newer.isEmpty)
    }

    private static let headersOfArm64 = "/usr/aarch64-linux-gnu/include"

    @Test(
        "the programs compile for arm64 too; nothing here can run them",
        .enabled(
            if: FileManager.default.fileExists(atPath: Self.headersOfArm64 + "/asm/ptrace.h"),
            "linux-libc-dev-arm64-cross is not installed"
        ),
        arguments: [("traffic", "v3"), ("traffic_hash", "v2")]
    )
    func arm64(name: String, cpu: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let result = try Tool.wait(
            for: "clang",
            [
                "-target", "bpf", "-mcpu=\(cpu)", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
                "-D__TARGET_ARCH_arm64", "-I\(Self.headersOfArm64)", "-c", "-o", "/dev/null",
                root.appending(path: "bpf/\(name).bpf.c").path,
            ],
            mayFail: true
        )
        #expect(result.status == 0, "\(result.error)")
    }

    @Test("methods are tried best first: function exits, tracepoints, kprobes, polling")
    func order() {
        // Where the kernel may preempt programs, only those of tracepoints have twins. `lifecycle` is never tried.
        var facts = KernelFacts(nil)
        #expect(facts.methods == [.tracepoint, .fexit, .kprobe, .poll])
        (facts.preemptsTracepoints, facts.preemptsFunctions) = (false, false)
        #expect(facts.methods == [.fexit, .tracepoint, .kprobe, .poll])
    }
}
