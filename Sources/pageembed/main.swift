// pageembed OUTPUT.swift FILE...
//
// Writes files of text as Swift source: a StaticString for each. Those compile at once; the array literals of SwiftPM's
// own `embedInCode` take a minute for 200 kB.

import Foundation

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data("error: \(message)\n".utf8))
    exit(1)
}

let files = CommandLine.arguments.dropFirst(2)
guard let output = CommandLine.arguments.dropFirst().first, !files.isEmpty else {
    fail("usage: pageembed OUTPUT.swift FILE...")
}
/// No file has it, so each text ends where it should.
let mark = "########"
var source =
    "// Made by pageembed.\nenum PageContents {\n    static let all: [(name: String, text: StaticString)] = [\n"
do {
    for file in files {
        let text = try String(contentsOfFile: file, encoding: .utf8)
        // Swift would change the ends of such lines.
        guard !text.contains(mark), !text.contains("\r") else { fail("\(file) can't be embedded as it is") }
        source += "(\"\(URL(fileURLWithPath: file).lastPathComponent)\", \(mark)\"\"\"\n\(text)\n\"\"\"\(mark)),\n"
    }
    source += "    ]\n}\n"
    try Data(source.utf8).write(to: URL(fileURLWithPath: output), options: .atomic)
} catch {
    fail("\(error)")
}
