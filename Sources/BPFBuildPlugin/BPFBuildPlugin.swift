import PackagePlugin

/// Compiles `bpf/traffic.bpf.c` with the toolchain's own clang, which has the BPF back end, and embeds the object in the target.
@main
struct BPFBuildPlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
        let bpf = context.package.directoryURL.appending(path: "bpf")
        let output = context.pluginWorkDirectoryURL.appending(path: "EmbeddedTrafficObject.swift")
        let sources = [
            "traffic.bpf.c", "account.bpf.h", "compat.bpf.h", "iterate.bpf.h", "kernel_types.h",
            "include/traffic_abi.h",
        ].map { bpf.appending(path: $0) }
        return [
            .buildCommand(
                displayName: "Compiling bpf/traffic.bpf.c",
                executable: try context.tool(named: "bpfembed").url,
                arguments: [sources[0].path(), output.path()],
                // Only the Swift file: naming the object as well would make a resource bundle.
                inputFiles: sources,
                outputFiles: [output]
            )
        ]
    }
}
