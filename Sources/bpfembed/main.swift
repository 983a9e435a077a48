// bpfembed SOURCE.bpf.c OUTPUT.swift NAME CPU
//
// Compiles a BPF program and writes the object as Swift source: compressed, as one hexadecimal StaticString. That compiles
// in a tenth of a second; an array literal of 64 KiB takes seven seconds. NAME is the name of the value, CPU the
// instruction set (clang's -mcpu).

import CZlib
import Foundation

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data("error: \(message)\n".utf8))
    exit(1)
}

/// The path of a tool of the toolchain that runs this build: beside `swift` on PATH, or on PATH under its own name.
func toolPath(_ name: String) -> String {
    let directories = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
    let files = FileManager.default
    let beside = directories.filter { files.isExecutableFile(atPath: "\($0)/swift") }.map { directory in
        URL(fileURLWithPath: "\(directory)/swift").resolvingSymlinksInPath().deletingLastPathComponent().path
    }
    for directory in beside + directories where files.isExecutableFile(atPath: "\(directory)/\(name)") {
        return "\(directory)/\(name)"
    }
    fail("\(name) not found; it comes with the Swift toolchain: add the toolchain's usr/bin to PATH")
}

func run(_ tool: String, _ arguments: [String]) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: toolPath(tool))
    process.arguments = arguments
    do {
        try process.run()
    } catch {
        fail("could not start \(tool): \(error)")
    }
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { fail("\(tool) exited with \(process.terminationStatus)") }
}

/// As RFC 1950 has it.
func compressed(_ bytes: Data) -> Data {
    var size = compressBound(uLong(bytes.count))
    var result = Data(count: Int(size))
    let status = result.withUnsafeMutableBytes { target in
        bytes.withUnsafeBytes { source in
            compress2(
                target.bindMemory(to: Bytef.self).baseAddress,
                &size,
                source.bindMemory(to: Bytef.self).baseAddress,
                uLong(source.count),
                Z_BEST_COMPRESSION
            )
        }
    }
    guard status == Z_OK else { fail("zlib can't compress the object: \(status)") }
    return result.prefix(Int(size))
}

guard CommandLine.arguments.count == 5 else { fail("usage: bpfembed SOURCE.bpf.c OUTPUT.swift NAME CPU") }
let source = URL(fileURLWithPath: CommandLine.arguments[1])
let output = URL(fileURLWithPath: CommandLine.arguments[2])
let (name, cpu) = (CommandLine.arguments[3], CommandLine.arguments[4])
let object = output.deletingPathExtension().appendingPathExtension("o")

#if arch(x86_64)
let (architecture, multiarch) = ("x86", "x86_64-linux-gnu")
#elseif arch(arm64)
let (architecture, multiarch) = ("arm64", "aarch64-linux-gnu")
#else
#error("name the BPF target architecture of this processor here")
#endif

run(
    "clang",
    [
        "-target", "bpf", "-mcpu=\(cpu)", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
        "-D__TARGET_ARCH_\(architecture)", "-I/usr/include/\(multiarch)",
        // Keeps paths of the building machine out of the debug information.
        "-ffile-prefix-map=\(source.deletingLastPathComponent().path)/=", "-fdebug-compilation-dir=.",
        "-c", source.path, "-o", object.path,
    ]
)
// Drops DWARF and keeps BTF.
run("llvm-objcopy", ["--strip-debug", object.path])

do {
    let bytes = try Data(contentsOf: object)
    let hexadecimal = compressed(bytes).map { byte in
        let digits = String(byte, radix: 16)
        return byte < 16 ? "0\(digits)" : digits
    }.joined()
    let text = """
        // Made by bpfembed from \(source.lastPathComponent).
        let \(name) = EmbeddedObject.Compressed(size: \(bytes.count), hexadecimal: "\(hexadecimal)")

        """
    try Data(text.utf8).write(to: output, options: .atomic)
} catch {
    fail("\(error)")
}
