import CLibbpf
import CLinux
import Glibc

/// Why a pin directory can't be used, or what is in it.
public enum PinError: Error, Hashable, Sendable {
    /// Another daemon uses the directory.
    case inUse(path: String)
    /// Only a BPF file system, and that of the host, can hold what outlives the daemon.
    case notBPF(path: String)
    /// Other users could change what is in it.
    case notSafe(path: String)
    /// Something in it was not made by trafficd.
    case foreign(path: String)
    /// There is no such directory.
    case absent(path: String)
    case system(call: String, path: String, errno: Int32)
}

extension PinError: CustomStringConvertible {
    /// One line. It says what to do, if that is known.
    public var description: String {
        switch self {
        case .inUse(let path):
            "\(path) is in use by a running trafficd; stop that one first, or take another --pin-directory"
        case .notBPF(let path):
            "\(path) is not in the host's BPF file system; take a directory in /sys/fs/bpf (if nothing is mounted there: mount -t bpf -o mode=700 bpf /sys/fs/bpf)"
        case .notSafe(let path):
            "\(path) belongs to another user, or others may enter it: take another --pin-directory, or remove this one as root with trafficd unload --pin-directory \(path)"
        case .foreign(let path):
            "\(path) was not made by trafficd: remove it, or take another --pin-directory"
        case .absent(let path): "nothing is pinned in \(path)"
        case .system(let call, let path, let errno): "\(call) \(path): \(CaptureError.text(ofErrno: errno))"
        }
    }
}

/// A directory in a BPF file system. What is pinned there stays in the kernel when the daemon ends: the programs go on
/// counting, and the next daemon goes on with their maps.
///
/// Pins are whole or absent: they are made in the directory `new`, which gets the number of the capture as its name when
/// it is complete. While a daemon replaces a capture, both are pinned, and the checkpoint says which one counts. One
/// daemon has the directory at a time.
public final class PinDirectory: Sendable {
    /// Where the service pins.
    public static let usualPath = "/sys/fs/bpf/trafficd"

    public let path: String
    /// The directory itself. It is locked.
    private let directory: OwnedDescriptor

    private static let new = "new"

    /// Takes the directory of this daemon, and makes it with mode 0700 if it is missing. Removes what a daemon left
    /// that was ended while it pinned.
    ///
    /// - Throws: ``PinError``.
    public convenience init(taking path: String) throws(PinError) {
        let isMade = mkdir(path, 0o700) == 0
        guard isMade || errno == EEXIST else {
            // Where no BPF file system is mounted, /sys/fs/bpf takes no directories, with one error or the other.
            let isNotMounted = errno == EPERM || errno == ENOENT
            throw isNotMounted ? .notBPF(path: path) : .system(call: "mkdir", path: path, errno: errno)
        }
        do throws(PinError) {
            try self.init(locking: path, owner: geteuid())
        } catch .notBPF {
            // Not left behind where it is of no use.
            if isMade { rmdir(path) }
            throw .notBPF(path: path)
        }
        try self.checkNames()
        try self.remove(Self.new)
    }

    /// Takes a directory that a daemon has left.
    ///
    /// - Throws: ``PinError``.
    public convenience init(left path: String) throws(PinError) {
        // Root may remove what the service has pinned, which has a user of its own.
        try self.init(locking: path, owner: geteuid() == 0 ? nil : geteuid())
    }

    /// - Parameter owner: Whose directory it must be. `nil`: anybody's.
    private init(locking path: String, owner: uid_t?) throws(PinError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw errno == ENOENT ? .absent(path: path) : .system(call: "open", path: path, errno: errno)
        }
        self.directory = OwnedDescriptor(owning: descriptor)
        self.path = path
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .system(call: "stat", path: path, errno: errno) }
        guard Self.isOfHost(status) else { throw .notBPF(path: path) }
        guard owner == nil || status.st_uid == owner && status.st_mode & 0o077 == 0 else { throw .notSafe(path: path) }
        // The kernel drops this lock when its process ends, in whatever way.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw errno == EWOULDBLOCK ? .inUse(path: path) : .system(call: "flock", path: path, errno: errno)
        }
    }

    /// While another thread starts a program, the child has a copy of the descriptor. The lock stays as long as one copy is
    /// open, unless it is released.
    deinit { flock(self.directory.descriptor, LOCK_UN) }

    /// - Throws: ``PinError/foreign(path:)`` for the first thing that no daemon has made.
    private func checkNames() throws(PinError) {
        for name in try self.names(in: ".") where !Self.isOurs(name) { throw .foreign(path: "\(self.path)/\(name)") }
    }

    private static func isOurs(_ name: String) -> Bool { name == self.new || UInt64(name) != nil }

    /// Whether the directory is in a BPF file system that process 1 sees: one of the daemon's own mount namespace would
    /// go away with the daemon.
    private static func isOfHost(_ status: stat) -> Bool {
        let device = "\(linux_major(status.st_dev)):\(linux_minor(status.st_dev))"
        // 30 23 0:26 / /sys/fs/bpf rw,nosuid - bpf bpf rw,mode=700 (proc_pid_mountinfo(5))
        return (text(ofFile: "/proc/1/mountinfo") ?? "").split(separator: "\n").contains { line in
            let words = line.split(separator: " ")
            guard words.count > 2, words[2] == device, let end = words.firstIndex(of: "-") else { return false }
            return words[(end + 1)...].first == "bpf"
        }
    }

    /// Whether a whole capture is pinned here.
    ///
    /// - Throws: ``PinError``.
    public func hasCapture() throws(PinError) -> Bool { try self.names(in: ".").contains { $0 != Self.new } }

    /// Removes all pins. The kernel stops counting, unless a daemon goes on.
    ///
    /// - Parameter position: The pins of this capture stay.
    /// - Throws: ``PinError/foreign(path:)`` for something that is no pin.
    public func removeAll(but position: CapturePosition? = nil) throws(PinError) {
        let kept = position.map { String($0.kernel.capture) }
        for name in try self.names(in: ".") where name != kept && Self.isOurs(name) { try self.remove(name) }
    }

    /// Removes all pins and the directory.
    ///
    /// - Throws: ``PinError/foreign(path:)`` if something else is there, which stays.
    public func removeDirectory() throws(PinError) {
        try self.removeAll()
        try self.checkNames()
        guard rmdir(self.path) == 0 else { throw .system(call: "rmdir", path: self.path, errno: errno) }
    }

    /// Follows no symbolic link: the directory may be another user's.
    private func remove(_ name: String) throws(PinError) {
        guard faccessat(self.directory.descriptor, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        let path = "\(self.path)/\(name)"
        let pins = try self.openDirectory(name)
        // Links first: no program runs any more when its maps go.
        for pin in try self.names(in: name).sorted() {
            guard unlinkat(pins.descriptor, pin, 0) == 0 else {
                throw errno == EISDIR
                    ? .foreign(path: "\(path)/\(pin)") : .system(call: "unlink", path: "\(path)/\(pin)", errno: errno)
            }
        }
        guard unlinkat(self.directory.descriptor, name, AT_REMOVEDIR) == 0 else {
            throw .system(call: "rmdir", path: path, errno: errno)
        }
    }

    private func openDirectory(_ name: String) throws(PinError) -> OwnedDescriptor {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        let descriptor = openat(self.directory.descriptor, name, flags)
        guard descriptor >= 0 else { throw .system(call: "open", path: "\(self.path)/\(name)", errno: errno) }
        return OwnedDescriptor(owning: descriptor)
    }

    private func names(in name: String) throws(PinError) -> [String] {
        let path = "\(self.path)/\(name)"
        let opened = try self.openDirectory(name)
        guard let directory = fdopendir(opened.release()) else {
            throw .system(call: "opendir", path: path, errno: errno)
        }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }
}

// MARK: What is pinned

extension PinDirectory {
    /// The names of the pins. A BPF file system allows no dot in a name.
    private enum Pin {
        static func link(_ program: String) -> String { "link_\(program)" }
        static func iterator(_ program: String) -> String { "iterator_\(program)" }
        static func map(_ name: String) -> String { "map_\(name.replacing(".", with: "_"))" }
        static func program(_ name: String) -> String { "program_\(name)" }
    }

    /// Pins a whole capture. Afterwards it stays in the kernel until ``removeAll(but:)`` or a reboot.
    ///
    /// - Throws: ``PinError``. Then nothing of it is pinned.
    func pin(_ kernel: KernelSide) throws(PinError) {
        do throws(PinError) {
            try self.remove(Self.new)
            let new = "\(self.path)/\(Self.new)"
            guard mkdir(new, 0o700) == 0 else { throw .system(call: "mkdir", path: new, errno: errno) }
            for (name, map) in kernel.maps { try self.pin(map.descriptor, as: Pin.map(name)) }
            for (program, link) in zip(kernel.attached, kernel.attachedLinks) {
                try self.pin(program.descriptor, as: Pin.program(program.name))
                try self.pin(link, as: Pin.link(program.name))
            }
            for (name, iterator) in kernel.iterators {
                try self.pin(iterator.program.descriptor, as: Pin.program(name))
                try self.pin(iterator.linkDescriptor, as: Pin.iterator(name))
            }
            guard rename(new, "\(self.path)/\(kernel.description.capture)") == 0 else {
                throw .system(call: "rename", path: new, errno: errno)
            }
        } catch {
            try? self.remove(Self.new)
            throw error
        }
    }

    private func pin(_ descriptor: Int32, as name: String) throws(PinError) {
        let path = "\(self.path)/\(Self.new)/\(name)"
        let result = bpf_obj_pin(descriptor, path)
        guard result == 0 else { throw .system(call: "bpf_obj_pin", path: path, errno: -result) }
    }

    private final class Descriptors {
        private(set) var all: [Box] = []

        /// Arrays hold no noncopyable values yet.
        final class Box {
            let descriptor: OwnedDescriptor
            init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }
        }

        func keep(_ descriptor: consuming OwnedDescriptor) -> Int32 {
            let box = Box(descriptor)
            self.all.append(box)
            return box.descriptor.descriptor
        }
    }

    /// Opens a capture that an earlier daemon pinned.
    ///
    /// - Parameter description: What that daemon noted of the capture.
    /// - Throws: ``PinError`` if a part is missing.
    func open(_ description: KernelSide.Description) throws(PinError) -> KernelSide {
        let (descriptors, capture) = (Descriptors(), description.capture)
        var maps: [String: BPFMap] = [:]
        for (name, capacity) in description.maps {
            let descriptor = descriptors.keep(try self.open(Pin.map(name), of: capture))
            maps[name] = BPFMap(descriptor: descriptor, name: name, capacity: capacity)
        }
        let load = { (program: KernelSide.Description.Program) throws(PinError) in
            let descriptor = descriptors.keep(try self.open(Pin.program(program.name), of: capture))
            return LoadedProgram(name: program.name, section: program.section, descriptor: descriptor)
        }
        var attached: [LoadedProgram] = []
        var links: [Int32] = []
        for program in description.attached {
            attached.append(try load(program))
            links.append(descriptors.keep(try self.open(Pin.link(program.name), of: capture)))
        }
        var iterators: [BPFIterator] = []
        for program in description.iterated {
            iterators.append(
                BPFIterator(try load(program), try self.openLink(Pin.iterator(program.name), of: capture))
            )
        }
        return KernelSide(
            description,
            attached: attached,
            attachedLinks: links,
            iterators: iterators,
            maps: maps,
            owner: descriptors
        )
    }

    private func open(_ name: String, of capture: UInt64) throws(PinError) -> OwnedDescriptor {
        let path = "\(self.path)/\(capture)/\(name)"
        let descriptor = bpf_obj_get(path)
        guard descriptor >= 0 else { throw .system(call: "bpf_obj_get", path: path, errno: -descriptor) }
        return OwnedDescriptor(owning: descriptor)
    }

    private func openLink(_ name: String, of capture: UInt64) throws(PinError) -> BPFLink {
        let path = "\(self.path)/\(capture)/\(name)"
        guard let link = bpf_link__open(path) else {
            throw .system(call: "bpf_link__open", path: path, errno: errno)
        }
        return BPFLink(owning: link)
    }
}
