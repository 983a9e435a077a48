import Foundation
import PackagePlugin

/// Embeds the files of the page in the target.
@main
struct PageBuildPlugin: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
        guard let target = target as? any SourceModuleTarget else { return [] }
        let page = target.directoryURL.appending(path: "Page")
        let files = try FileManager.default.contentsOfDirectory(at: page, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension != "LICENSE" }
            .sorted { $0.path < $1.path }
        let output = context.pluginWorkDirectoryURL.appending(path: "PageContents.swift")
        return [
            .buildCommand(
                displayName: "Embedding the page",
                executable: try context.tool(named: "pageembed").url,
                arguments: [output.path(percentEncoded: false)] + files.map { $0.path(percentEncoded: false) },
                inputFiles: files,
                outputFiles: [output]
            )
        ]
    }
}
