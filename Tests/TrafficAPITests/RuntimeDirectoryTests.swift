import CUnixSocket
import Foundation
import Glibc
import TestSupport
import Testing
import TrafficAPI

@Suite("The runtime directory")
struct RuntimeDirectoryTests {
    let path = temporaryPath("trafficd")

    func listen(at path: String) throws -> CInt {
        let server = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(unix_socket_bind(server, path) == 0 && Glibc.listen(server, 1) == 0)
        return server
    }

    @Test("The directory is created so that other users reach it, and only one daemon takes it")
    func taken() throws {
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        var first: RuntimeDirectory? = try RuntimeDirectory(taking: self.path)
        let mode = try FileManager.default.attributesOfItem(atPath: self.path)[.posixPermissions] as? Int
        #expect(mode == 0o755)
        #expect(throws: RuntimeDirectoryError.inUse(path: self.path)) { try RuntimeDirectory(taking: self.path) }
        #expect(first?.controlSocketPath == self.path + "/control.sock")
        first = nil
        _ = try RuntimeDirectory(taking: self.path)
    }

    @Test("A dead daemon's socket is removed; a living daemon's socket is in use, though its lock is gone")
    func stale() throws {
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        let socket = self.path + "/control.sock"
        let server = try self.listen(at: socket)
        #expect(throws: RuntimeDirectoryError.inUse(path: socket)) { try RuntimeDirectory(taking: self.path) }
        #expect(FileManager.default.fileExists(atPath: socket))
        // A program that another test is starting may have a copy for a moment.
        shutdown(server, CInt(SHUT_RDWR))
        close(server)
        _ = try RuntimeDirectory(taking: self.path)
        #expect(!FileManager.default.fileExists(atPath: socket))
    }

    @Test("a directory that was given up can be taken at once, though a child has a copy of its lock")
    func copiedLock() throws {
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        var first: RuntimeDirectory? = try RuntimeDirectory(taking: self.path)
        #expect(first?.path == self.path)
        let lock = self.path + "/lock"
        // As fork(2) leaves one: another descriptor of the same open file.
        let copies = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { name in
            let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name)
            return path == lock ? Int32(name).map { dup($0) } : nil
        }
        defer { for copy in copies { close(copy) } }
        try #require(copies.count == 1)
        first = nil
        _ = try RuntimeDirectory(taking: self.path)
    }

    @Test("Every user may write to the report socket, a dead daemon's is removed, and both sockets go with the daemon")
    func reportSocket() throws {
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        func bindReports(at path: String) throws {
            let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
            defer { close(descriptor) }
            try #require(unix_socket_bind(descriptor, path) == 0)
        }
        var directory: RuntimeDirectory? = try RuntimeDirectory(taking: self.path)
        try bindReports(at: try #require(directory).reportBindingPath)
        try directory?.publishReportSocket()
        let mode = try FileManager.default.attributesOfItem(atPath: self.path + "/report.sock")[.posixPermissions]
        #expect(mode as? Int == 0o666)
        directory = nil
        let next = try RuntimeDirectory(taking: self.path)
        #expect(!FileManager.default.fileExists(atPath: next.reportSocketPath))
        try bindReports(at: next.reportBindingPath)
        try next.publishReportSocket()
        next.removeSocket()
        #expect(!FileManager.default.fileExists(atPath: next.reportSocketPath))
    }

    @Test("A file that is no socket is not removed")
    func foreignFile() throws {
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        let file = self.path + "/control.sock"
        try Data("precious".utf8).write(to: URL(filePath: file))
        #expect(throws: RuntimeDirectoryError.notASocket(path: file)) { try RuntimeDirectory(taking: self.path) }
        #expect(FileManager.default.fileExists(atPath: file))
    }

    @Test("A directory that everyone may write to is refused, and so is a symbolic link")
    func unsafeDirectories() throws {
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        let link = self.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/tmp")
        #expect(throws: RuntimeDirectoryError.self) { try RuntimeDirectory(taking: link) }
        chmod(self.path, 0o777)
        #expect(throws: RuntimeDirectoryError.notSafe(path: self.path, reason: "everyone may write to it")) {
            try RuntimeDirectory(taking: self.path)
        }
    }

    @Test("A directory for unfinished sockets that other users can enter, or that is a link, is refused")
    func unsafePrivateDirectory() throws {
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: false)
        let elsewhere = self.path + "-elsewhere"
        try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: false)
        defer {
            try? FileManager.default.removeItem(atPath: self.path)
            try? FileManager.default.removeItem(atPath: elsewhere)
        }
        let directory = self.path + "/.private"
        func refusal() throws -> RuntimeDirectoryError {
            try #require(throws: RuntimeDirectoryError.self) { try RuntimeDirectory(taking: self.path) }
        }
        chmod(elsewhere, 0o700)
        try FileManager.default.createSymbolicLink(atPath: directory, withDestinationPath: elsewhere)
        #expect(try refusal() == .notSafe(path: directory, reason: "it is no directory"))
        unlink(directory)
        try Data().write(to: URL(filePath: directory))
        #expect(try refusal() == .notSafe(path: directory, reason: "it is no directory"))
        unlink(directory)
        for mode in [0o755, 0o710, 0o701] as [mode_t] {
            mkdir(directory, 0o700)
            chmod(directory, mode)
            #expect(try refusal() == .notSafe(path: directory, reason: "others than its owner may enter it"))
            rmdir(directory)
        }
        if geteuid() == 0 {
            mkdir(directory, 0o700)
            chown(directory, 65_534, 65_534)
            #expect(try refusal() == .notSafe(path: directory, reason: "it belongs to user 65534"))
            rmdir(directory)
        }
        // A dead daemon's own directory is taken over.
        mkdir(directory, 0o700)
        _ = try RuntimeDirectory(taking: self.path)
    }

    @Test("A path too long for a socket is refused with the limit, and the lock is free again")
    func tooLong() throws {
        let long =
            self.path + String(repeating: "x", count: 107 - self.path.utf8.count - "/.private/control.sock".count)
        defer { try? FileManager.default.removeItem(atPath: long) }
        _ = try RuntimeDirectory(taking: long)
        let longer = long + "y"
        defer { try? FileManager.default.removeItem(atPath: longer) }
        let error = RuntimeDirectoryError.pathTooLong(path: longer + "/.private/control.sock", limit: 107)
        #expect(throws: error) { try RuntimeDirectory(taking: longer) }
        #expect(throws: error) { try RuntimeDirectory(taking: longer) }
    }

    @Test("The error names a missing parent directory")
    func missingParent() throws {
        let error = try #require(throws: RuntimeDirectoryError.self) {
            try RuntimeDirectory(taking: self.path + "/a/b")
        }
        #expect(error.description == "mkdir \(self.path)/a/b: No such file or directory")
    }

    @Test("Nothing stays open after a refusal")
    func descriptors() throws {
        try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: self.path) }
        try Data().write(to: URL(filePath: self.path + "/control.sock"))
        for _ in 0..<20 { _ = try? RuntimeDirectory(taking: self.path) }
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let ours = descriptors.filter {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0))?.hasPrefix(self.path)
                == true
        }
        #expect(ours.isEmpty)
    }
}
