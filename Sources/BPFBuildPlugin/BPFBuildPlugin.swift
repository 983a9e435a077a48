import Foundation
import PackagePlugin

/// Compiles `bpf/traffic.bpf.c` with the toolchain's own clang, which has the BPF back end, and embeds the object in the target.
@main
struct BPFBuildPlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
        let bpf = context.package.directoryURL.appending(path: "bpf")
        let output = context.pluginWorkDirectoryURL.appending(path: "EmbeddedTrafficObject.swift")
        let sources = try [bpf, bpf.appending(path: "include")].flatMap { directory in
            try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)
        }
        return [
            .buildCommand(
                displayName: "Compiling bpf/traffic.bpf.c",
                executable: try context.tool(named: "bpfembed").url,
                arguments: [bpf.appending(path: "traffic.bpf.c").path(), output.path()],
                inputFiles: sources.filter { ["c", "h"].contains($0.pathExtension) },
                // Only the Swift file: naming the object as well would make a resource bundle.
                outputFiles: [output]
            )
        ]
    }
}
