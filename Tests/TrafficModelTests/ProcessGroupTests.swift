import Testing
import TrafficModel

@Suite("What makes a process group")
struct ProcessGroupTests {
    /// Names as systemd 252 to 257 make them.
    @Test(
        "the part of a unit's name that is new each time is left out, and a part that somebody chose stays",
        arguments: [
            ("session-3.scope", "session-*.scope"), ("session-c12.scope", "session-*.scope"),
            ("run-u81.service", "run-*.service"), ("run-r6d1b0f6bb6b04b6e8c2a5a9a0d4f5e21.scope", "run-*.scope"),
            ("run-p4711-i4712.service", "run-*.service"), ("run-4711.scope", "run-*.scope"),
            ("sshd@4-192.0.2.1:22-198.51.100.7:50122.service", "sshd@*.service"),
            ("sshd@17-2001:db8::1:22-2001:db8::7:50122.service", "sshd@*.service"),
            ("api@3-4711-1000.service", "api@*.service"),
            ("app-gnome-firefox-4711.scope", "app-gnome-firefox-*.scope"),
            ("snap.docker.dockerd-0b51a3d4-5f58-4f0a-9c6e-4c6f0f0e7d11.scope", "snap.docker.dockerd-*.scope"),
            (
                "user@1000.service/app-gnome-firefox-4711.scope",
                "user@1000.service/app-gnome-firefox-*.scope"
            ),
            ("a@3-4711-1000.service/run-u5.scope", "a@*.service/run-*.scope"),
            // These stay.
            ("user@1000.service/nginx.service", nil), ("docker/nginx.service", nil), ("/", nil),
            ("nginx.service", nil), ("getty@tty1.service", nil), ("user@1000.service", nil),
            ("postgresql@15-main.service", nil), ("openvpn@site-2-1.service", nil), ("run-backup2.service", nil),
            ("web-2.service", nil), ("session-cache.service", nil), ("init.scope", nil), ("", nil), ("a1", nil),
            ("docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope", nil),
            ("app-2.service", nil), ("app-2.scope", nil), ("app-web@8080.service", nil),
            ("session-backup-3.scope", nil),
            ("session-3.service", nil), ("run-.scope", nil), ("session-.scope", nil), ("@1.service", nil),
        ] as [(String, String?)]
    )
    func units(unit: String, pattern: String?) {
        let group = ProcessGroup(ProcessDetails(name: "a", uid: 0, systemdUnit: unit))
        #expect(group.systemdUnit == pattern ?? unit)
    }
}
