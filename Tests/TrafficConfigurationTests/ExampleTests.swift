import Foundation
import Testing
import TrafficConfiguration

/// The commented file that the package installs.
@Suite("The example of a configuration file")
struct ExampleTests {
    private static let text = try? String(
        contentsOf: URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "packaging/trafficd.yaml"),
        encoding: .utf8
    )

    /// The lines of settings, `#` with a default and `##` without. A line of prose has one blank or three after its `#`.
    private static func settings(marked mark: String) throws -> [String] {
        try #require(Self.text).split(separator: "\n").compactMap { line in
            guard let match = line.wholeMatch(of: /(#+)((?:  )?(?:- \{)?[a-z0-9_]+:.*)/), match.1 == mark else {
                return nil
            }
            return String(match.2)
        }
    }

    @Test("as it is installed, it changes nothing")
    func installed() throws {
        #expect(try Written(#require(Self.text)).configuration() == Configuration())
    }

    @Test("without its marks, it names every setting, and shows the defaults of those that have one")
    func complete() throws {
        let defaults = try Self.settings(marked: "#")
        let examples = try Self.settings(marked: "##")
        let shown = try Written(defaults.joined(separator: "\n"))
        #expect(shown.lines() == [])
        let contents = try ConfigurationFile(path: shown.url.path).read()
        let has = Set(Configuration.settings.all.filter { $0.show(Configuration()) != nil }.map(\.name))
        #expect(contents.given == has)
        for setting in Configuration.settings.all {
            #expect(setting.show(contents.configuration) == setting.show(Configuration()), "\(setting.name)")
        }
        let all = try Written((defaults + examples).joined(separator: "\n"))
        #expect(all.lines() == [])
        #expect(try ConfigurationFile(path: all.url.path).read().given == Set(Configuration.settings.all.map(\.name)))
    }

    @Test("it says which settings need a restart")
    func restarts() throws {
        let paragraphs = try #require(Self.text).components(separatedBy: "\n\n")
        for setting in Configuration.settings.all {
            let paragraph = try #require(
                paragraphs.first { $0.contains("\n#\(setting.path[0]):") || $0.contains("\n##\(setting.path[0]):") },
                "\(setting.name)"
            )
            let words = paragraph.replacing("\n# ", with: " ")
            #expect(words.contains("Needs a restart") == (setting.change == .atRestart), "\(setting.name)")
        }
    }
}
