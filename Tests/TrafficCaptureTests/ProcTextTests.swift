import Glibc
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("Texts of /proc")
struct ProcTextTests {
    @Test(
        "the start time is found behind a name with blanks and parentheses",
        arguments: [
            "1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9",
            "1 (a) b (c) S) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9",
        ]
    )
    func startTicks(stat: String) {
        #expect(ProcessDirectory.startTicks(stat: Array(stat.utf8)) == 4242)
    }

    @Test("a stat text that is cut or malformed gives nothing", arguments: ["", "1 (x", "1 (x) S 0 1", "garbage"])
    func badStat(stat: String) {
        #expect(ProcessDirectory.startTicks(stat: Array(stat.utf8)) == nil)
    }

    @Test("the start time of a process goes with its real user, and with no other")
    func users() throws {
        // A process of root that does something for user 33.
        let status = Array("Name:\tUid:\t7\nPid:\t5\nUid:\t0\t33\t0\t33\nGid:\t5\t5\t5\t5\n".utf8)
        #expect(ProcessDirectory.user(status: status) == 0)
        #expect(
            ProcessDirectory.user(status: []) == nil && ProcessDirectory.user(status: Array("Uid:\t\n".utf8)) == nil
        )
        #expect(ProcessDirectory.user(pid: getpid()) == getuid())
        let ticks = try #require(ProcessDirectory.startTicks(pid: getpid()))
        #expect(try #require(ProcessDirectory.startTicksAndUser(pid: getpid())) == (ticks, getuid()))
    }

    @Test("a file without an end is cut, and a file that fits is whole")
    func limits() throws {
        // A process can make its command line as long as this endless file.
        #expect(contents(ofFile: "/dev/zero", atMost: 100_000) == [UInt8](repeating: 0, count: 100_000))
        #expect(contents(ofFile: "/dev/null") == [])
        #expect(contents(ofFile: "/proc/self/nothing") == nil)
        let line = try #require(contents(ofFile: "/proc/self/cmdline"))
        #expect(contents(ofFile: "/proc/self/cmdline", atMost: 5) == Array(line.prefix(5)))
        #expect(ProcessDirectory.commandLine(pid: getpid(), limit: 5)?.joined(separator: "\0").utf8.count ?? 9 <= 5)
    }

    @Test("this process is alive, and a process with the same pid and another start time is not")
    func alive() throws {
        let ticks = try #require(ProcessDirectory.startTicks(pid: getpid()))
        let tick = ProcessIdentity.nanosecondsPerTick
        #expect(!ProcessDirectory.isGone(ProcessIdentity(pid: getpid(), startBoottimeNanoseconds: ticks * tick + 5)))
        #expect(ProcessDirectory.isGone(ProcessIdentity(pid: getpid(), startBoottimeNanoseconds: (ticks + 1) * tick)))
    }

    @Test("cgroup v2 and a systemd v1 hierarchy are distinguished")
    func cgroups() {
        let hybrid = ProcessDirectory.cgroups("4:memory:/m\n1:name=systemd:/system.slice/a.service\n0::/unified\n")
        #expect(hybrid.unified == "/unified")
        #expect(hybrid.systemd == "/system.slice/a.service")
        #expect(ProcessDirectory.cgroups("0::/x:y\n").unified == "/x:y")
        #expect(ProcessDirectory.cgroups("").unified == nil)
        // The kernel forbids only the line end in a name.
        let odd = ProcessDirectory.cgroups("4:memory:/m\r\n1:name=systemd:/\u{301}a\r\n0::/b\n")
        #expect(odd.systemd == "/\u{301}a\r" && odd.unified == "/b")
    }

    static let id = String(repeating: "0123456789abcdef", count: 4)
    static let otherID = String(repeating: "fedcba9876543210", count: 4)

    @Test(
        "units and containers are read from cgroup paths",
        arguments: [
            ("/system.slice/nginx.service", "nginx.service", nil),
            ("/user.slice/user-0.slice/session-3.scope", "session-3.scope", nil),
            ("/system.slice", nil, nil),
            ("/", nil, nil),
            ("/docker/\(id)", nil, id),
            ("/system.slice/docker-\(id).scope", "docker-\(id).scope", id),
            ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-\(id).scope", "cri-containerd-\(id).scope", id),
            ("/machine.slice/libpod-\(id).scope/container", "libpod-\(id).scope", id),
            ("/../../system.slice/nginx.service", "nginx.service", nil),
            ("/init.scope", "init.scope", nil),
            // Names that a user or a container gives.
            (
                "/user.slice/user-5301.slice/user@5301.service/app.slice/nginx.service",
                "user@5301.service/nginx.service", nil
            ),
            ("/user.slice/user-5301.slice/user@5301.service/init.scope", "user@5301.service/init.scope", nil),
            ("/user.slice/user-5301.slice/user@5301.service/app.slice", "user@5301.service", nil),
            (
                "/user.slice/user-5301.slice/user@5301.service/docker-\(id).scope",
                "user@5301.service/docker-\(id).scope", nil
            ),
            ("/user.slice/user-5301.slice/user@5301.service/\(id)/system.slice", "user@5301.service", nil),
            ("/system.slice/docker-\(id).scope/system.slice/a.service", "docker-\(id).scope/a.service", id),
            ("/docker/\(id)/system.slice/a.service", "docker/a.service", id),
            ("/kubepods/burstable/pod7/\(id)", nil, id),
            // Of containers in each other the outer one: the inner name is the outer's own.
            ("/docker/\(id)/docker/\(otherID)", nil, id),
            ("/system.slice/docker-\(id).scope/\(otherID)", "docker-\(id).scope", id),
            ("/lxc.payload.web/\(otherID)", nil, nil),
            ("/system.slice/ci.service/docker-\(otherID).scope", "ci.service/docker-\(otherID).scope", nil),
            // One Character with the slash before it. The kernel forbids only the line end.
            ("/user@5301.service/\u{301}x.slice/nginx.service", "user@5301.service/nginx.service", nil),
            ("/user@5301.service/\u{600}/nginx.service", "user@5301.service/nginx.service", nil),
            ("/user@5301.service/\u{301}x.slice/docker-\(id).scope", "user@5301.service/docker-\(id).scope", nil),
            ("/lxc.payload.web/system.slice/a.service", "lxc.payload.web/a.service", nil),
            ("/system.slice/a.service/payload/system.slice/b.service", "a.service/b.service", nil),
        ] as [(String, String?, String?)]
    )
    func naming(path: String, unit: String?, container: String?) {
        #expect(CgroupNaming.systemdUnit(path) == unit)
        #expect(CgroupNaming.containerID(path) == container)
    }

    @Test("only a mount of the whole cgroup v2 hierarchy counts as its root")
    func mounts() {
        let text = """
            30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
            31 25 0:27 /child /mnt/part rw - cgroup2 cgroup2 rw
            32 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw
            """
        #expect(CgroupRoot.mountPoints(mountinfo: text) == ["/sys/fs/cgroup/unified"])
        #expect(CgroupRoot.mountPoints(mountinfo: "") == [])
    }

    @Test("capabilities are read from status")
    func capabilities() {
        #expect(Privileges.effectiveCapabilities(status: "Name:\tx\nCapEff:\t000001ffffffffff\n") == 0x1ff_ffff_ffff)
        #expect(Privileges.effectiveCapabilities(status: "") == 0)
    }
}
