import Foundation
import TestSupport
import Testing
import TrustedFiles

@Suite("Files that only root and the daemon's user can change")
struct TrustedFileTests {
    /// The folders `a/b` and a file in them, in a folder of its own.
    private final class Tree {
        let root = temporaryPath("tf")
        var folder: String { self.root + "/a/b" }
        var file: String { self.folder + "/file" }

        init() throws {
            try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
            try Data("text".utf8).write(to: URL(filePath: self.file))
            for path in [self.root, self.root + "/a", self.folder] { try self.change(path, mode: 0o755) }
            try self.change(self.file, mode: 0o600)
        }

        deinit { try? FileManager.default.removeItem(atPath: self.root) }

        func change(_ path: String, mode: mode_t) throws { try #require(chmod(path, mode) == 0) }
        func change(_ path: String, owner: uid_t) throws { try #require(lchown(path, owner, 0) == 0) }

        func link(_ name: String, to target: String) throws {
            try #require(symlink(target, self.root + "/" + name) == 0)
        }
    }

    /// - Returns: Why the file is not read; `nil` where it is.
    private func refusal(_ path: String, isSecret: Bool = true) -> String? {
        do throws(TrustedFileError) {
            let bytes = try TrustedFile.read(path, isSecret: isSecret)
            return bytes == Array("text".utf8) ? nil : "other bytes"
        } catch {
            #expect(error.path == path)
            return error.reason
        }
    }

    @Test("a file of ours below folders of ours is read, by any path that leads to it")
    func good() throws {
        let tree = try Tree()
        try tree.link("absolute", to: tree.folder)
        try tree.link("relative", to: "a/b/../b/file")
        try tree.link("twice", to: "absolute/file")
        for path in [
            tree.file, tree.root + "/./a//b/file", tree.root + "/a/b/../../a/b/file", tree.root + "/absolute/file",
            tree.root + "/relative", tree.root + "/twice",
        ] {
            #expect(self.refusal(path) == nil, "\(path)")
        }
        try tree.change(tree.file, mode: 0o640)
        #expect(self.refusal(tree.file) == nil, "the group may read a secret")
        // All may write a folder in which nobody moves another user's files.
        try tree.change(tree.folder, mode: 0o1777)
        #expect(self.refusal(tree.file) == nil)
    }

    @Test("a file that others can write, and a secret that they can read, are refused")
    func modes() throws {
        let tree = try Tree()
        for mode: mode_t in [0o602, 0o620, 0o666] {
            try tree.change(tree.file, mode: mode)
            #expect(self.refusal(tree.file, isSecret: false)?.contains("install -m 600") == true)
        }
        for mode: mode_t in [0o604, 0o601] {
            try tree.change(tree.file, mode: mode)
            #expect(self.refusal(tree.file)?.contains("chmod o=") == true)
            #expect(self.refusal(tree.file, isSecret: false) == nil)
        }
    }

    @Test("a folder in which others can put another file is refused, wherever it is", arguments: [0o777, 0o775])
    func folders(mode: mode_t) throws {
        for name in ["", "/a", "/a/b"] {
            let tree = try Tree()
            try tree.change(tree.root + name, mode: mode)
            for isSecret in [false, true] {
                let reason = try #require(self.refusal(tree.file, isSecret: isSecret))
                #expect(reason.contains(tree.root + name + " ") && reason.contains("chmod go-w"), "\(reason)")
            }
        }
        // Good folders at both ends of a link, and this one between.
        let tree = try Tree()
        try FileManager.default.createDirectory(atPath: tree.root + "/open", withIntermediateDirectories: false)
        try #require(symlink(tree.file, tree.root + "/open/second") == 0)
        try tree.link("first", to: "open/second")
        #expect(self.refusal(tree.root + "/first") == nil)
        try tree.change(tree.root + "/open", mode: mode)
        #expect(self.refusal(tree.root + "/first")?.contains(tree.root + "/open") == true)
    }

    @Test("files, folders and links of other users are refused", .enabled(if: geteuid() == 0, "needs root"))
    func owners() throws {
        for name in ["/a/b/file", "/a/b", "/a", "/link"] {
            let tree = try Tree()
            try tree.link("link", to: tree.file)
            // Where all may write, so that a stranger's link can be there.
            try tree.change(tree.root, mode: 0o1777)
            #expect(self.refusal(tree.root + "/link") == nil)
            try tree.change(tree.root + name, owner: 65_534)
            #expect(self.refusal(tree.root + "/link")?.contains("user 65534") == true, "\(name)")
        }
    }

    @Test("what is no file, too long or not there is refused")
    func others() throws {
        let tree = try Tree()
        try #require(mkfifo(tree.folder + "/pipe", 0o600) == 0)
        try tree.link("loop", to: "loop")
        #expect(self.refusal(tree.folder) == "not a regular file")
        #expect(self.refusal(tree.folder + "/pipe") == "not a regular file")
        #expect(self.refusal(tree.root + "/loop") == "can't read it: Too many levels of symbolic links")
        #expect(self.refusal(tree.file + "/more") == "can't read it: Not a directory")
        #expect(self.refusal(tree.root + "/none") == "can't read it: No such file or directory")
        #expect(self.refusal("") != nil)
        #expect(self.refusal("/") != nil)
        // One Character with the slash before it.
        let odd = tree.root + "/\u{301}x"
        try FileManager.default.createDirectory(atPath: odd, withIntermediateDirectories: false)
        try Data("text".utf8).write(to: URL(filePath: odd + "/file"))
        try tree.change(odd + "/file", mode: 0o600)
        try tree.change(odd, mode: 0o755)
        #expect(self.refusal(odd + "/file") == nil)
        try tree.change(tree.root, mode: 0o777)
        #expect(self.refusal(odd + "/file")?.contains("chmod go-w") == true)
        try tree.change(tree.root, mode: 0o755)
        #expect(throws: TrustedFileError.self) { try TrustedFile.read(tree.file, largest: 3, isSecret: true) }
        #expect(try TrustedFile.read(tree.file, largest: 4, isSecret: true).count == 4)
    }
}
