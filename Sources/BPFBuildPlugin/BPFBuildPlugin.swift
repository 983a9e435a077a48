import Foundation
import PackagePlugin

/// Compiles the programs in `bpf/` with the clang of the Swift toolchain, which has the BPF back end. Embeds the
/// objects in the target.
@main
struct BPFBuildPlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
        let bpf = context.package.directoryURL.appending(path: "bpf")
        let sources = try [bpf, bpf.appending(path: "include")].flatMap { directory in
            try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)
        }
        let objects = [
            (source: "traffic.bpf.c", output: "EmbeddedTrafficObject", name: "embeddedTrafficObject", cpu: "v3"),
            // For Linux before 5.12, which has only the atomic operations of v2.
            (source: "traffic_hash.bpf.c", output: "EmbeddedHashObject", name: "embeddedHashObject", cpu: "v2"),
        ]
        return try objects.map { object in
            let output = context.pluginWorkDirectoryURL.appending(path: "\(object.output).swift")
            return .buildCommand(
                displayName: "Compiling bpf/\(object.source)",
                executable: try context.tool(named: "bpfembed").url,
                arguments: [bpf.appending(path: object.source).path(), output.path(), object.name, object.cpu],
                inputFiles: sources.filter { ["c", "h"].contains($0.pathExtension) },
                // Only the Swift file: if the object were named too, the build would make a resource bundle.
                outputFiles: [output]
            )
        }
    }
}
