import CommandOptions
import Foundation
import Logging
import TestSupport
import Testing
import TrafficCapture
import TrafficConfiguration
import TrafficDocuments
import TrafficModel

@Suite("The settings of a configuration file")
struct SettingsTests {
    @Test("each setting is read, whatever else the file has")
    func values() throws {
        let configuration = try Written(
            """
            runtime_directory: /run/other   # a comment
            state_directory: '/srv/it''s'
            pin_directory: "/sys/fs/bpf/x"
            listen: "[::1]:10419"
            allow_hosts: [a.example, no]
            method: fexit
            wire: audited
            interval: 1m
            keep_exited: 1h30m
            keep_history: {minute: 1m, month: unlimited}
            classes:
              own:
                - 10.0.0.0/8
                - 2001:db8::/32
              010: ["::/0"]
            log_level: warning
            """
        ).configuration()
        var wanted = Configuration()
        wanted.runtimeDirectory = "/run/other"
        wanted.stateDirectory = "/srv/it's"
        wanted.pinDirectory = .directory("/sys/fs/bpf/x")
        wanted.listen = ListenOption(argument: "[::1]:10419")?.address
        // YAML 1.1 takes these for false and for 8. Here every scalar is text.
        wanted.allowedHosts = ["a.example", "no"]
        wanted.classes = try AddressClasses(["own=10.0.0.0/8,2001:db8::/32", "010=::/0"])
        wanted.method = .fexit
        wanted.wantedWire = .audited
        wanted.interval = TimeSpan(seconds: 60)
        wanted.keepExited = TimeSpan(seconds: 5_400)
        wanted.historyRetention.keep(.minute, for: 60)
        wanted.historyRetention.keep(.month, for: nil)
        wanted.logLevel = .warning
        #expect(configuration == wanted)
        #expect(wanted.listen != nil)
    }

    @Test(
        "a file that says nothing is the defaults",
        arguments: [
            "", "# interval: 2s\n", "---\n", "---\n...\n", "keep_history:\n#  minute: 2d\nclasses:\nallow_hosts:\n",
            "\u{feff}{}",
        ]
    )
    func nothing(text: String) throws {
        #expect(try Written(text).configuration() == Configuration())
    }

    @Test("a value is shown as it is read", arguments: Configuration.settings.all.map(\.name))
    func shown(name: String) throws {
        let setting = try #require(Configuration.settings.all.first { $0.name == name })
        let text = try #require(Self.values[name], "the test has no value for \(name)")
        let section = setting.path.dropLast().map { "\($0): {" }.joined()
        let written =
            section + "\(setting.path.last ?? ""): \(text)" + String(repeating: "}", count: setting.path.count - 1)
        let configuration = try Written(written).configuration()
        #expect(setting.show(configuration) != setting.show(Configuration()))
        // Nothing else changes, and the copy is whole.
        for other in Configuration.settings.all where other.name != name {
            #expect(other.show(configuration) == other.show(Configuration()), "\(other.name)")
        }
        var copy = Configuration()
        setting.copy(configuration, &copy)
        #expect(copy == configuration)
    }

    private static let keys = Set(Configuration.settings.all.map { $0.path[0] }).sorted().joined(separator: ", ")

    /// A value that is not the default, for each setting.
    private static let values = [
        "runtime_directory": "/run/x", "state_directory": "/srv/x", "pin_directory": "/sys/fs/bpf/x",
        "listen": "127.0.0.1:1", "listen_token_file": "/x", "listen_admin_token_file": "/x",
        "listen_certificate_file": "/x", "listen_key_file": "/x",
        "listen_insecure": "true", "allow_hosts": "[a]", "method": "poll", "wire": "derived", "keep_sys_admin": "true",
        "interval": "100ms",
        "keep_exited": "0s", "keep_history.minute": "unlimited", "keep_history.5minute": "5m",
        "keep_history.hour": "1h", "keep_history.day": "25h",
        "keep_history.month": "31d", "classes": "{a: [10.0.0.0/8]}",
        "push": "[{url: http://h/}]", "push_interval": "1s",
        "alerts": "[{name: a, rate: 10M, for: 5m}]", "log_level": "trace",
    ]

    @Test(
        "what is wrong is named with its place, and with what was probably meant",
        arguments: [
            ("intervall: 1s", "1:1: error: unknown key 'intervall' (did you mean interval?)"),
            ("keep-exited: 1s", "1:1: error: unknown key 'keep-exited' (did you mean keep_exited?)"),
            ("\n\n  lgo_level: info", "3:3: error: unknown key 'lgo_level' (did you mean log_level?)"),
            (
                "keep_history:\n  minutes: 2d",
                "2:3: error: unknown key 'minutes' in keep_history (did you mean minute?)"
            ),
            (
                "keep_history:\n  x: 2d",
                "2:3: error: unknown key 'x' in keep_history; known: 5minute, day, hour, minute, month"
            ),
            (
                "method: trace",
                "1:9: error: method is 'trace', and must be one of auto, fexit, tracepoint, kprobe, poll, lifecycle"
            ),
            (
                "wire: exakt",
                "1:7: error: wire is 'exakt', and must be one of derived, exact, audited (did you mean exact?)"
            ),
            ("wire: [exact]", "1:7: error: wire must be one value, such as derived"),
            ("wire: {a: b}", "1:7: error: wire must be one value, such as derived"),
            (
                "log_level:",
                "1:11: error: log_level has no value: write one, such as trace, or make the line a comment"
            ),
            ("interval: 1", nil),
            ("interval: 0.1", nil),
            ("interval: 60s", nil),
            ("interval: 99ms", "1:11: error: interval is 99ms, and must be between 100ms and 1m"),
            ("interval: 61s", "1:11: error: interval is 61s, and must be between 100ms and 1m"),
            (
                "interval: 1e3",
                "1:11: error: interval is '1e3', and must be a time such as 500ms, 10s, 5m, 1h30m or 7d"
            ),
            ("keep_exited: 3650d", nil),
            ("keep_exited: 3651d", "1:14: error: keep_exited is 3651d, and must be between 0s and 3650d"),
            (
                "keep_history: {day: 24h}",
                "1:21: error: keep_history.day is '24h', and must be a time of at least 25h, or unlimited"
            ),
            (
                "keep_history: {day: unlimeted}",
                "1:21: error: keep_history.day is 'unlimeted', and must be a time of at least 25h, or unlimited (did you mean unlimited?)"
            ),
            ("keep_history: 2d", "1:15: error: keep_history must have lines KEY: VALUE, with a blank after the colon"),
            (
                "state_directory: var/lib",
                "1:18: error: state_directory is 'var/lib', and must be a path that begins with /"
            ),
            (
                "listen: localhost:80",
                "1:9: error: listen is 'localhost:80', and must be off, or an address and a port, such as 127.0.0.1:10419 or \"[::1]:10419\""
            ),
            (
                "allow_hosts: a",
                "1:14: error: allow_hosts must be a list, such as [traffic.example.net] (did you mean [a]?)"
            ),
            (
                "allow_hosts: [[a]]",
                "1:15: error: allow_hosts must be one value, such as traffic.example.net"
            ),
            ("classes: [10.0.0.0/8]", "1:10: error: classes must have lines NAME: [CIDR, ...]"),
            (
                "classes:\n  own: 10.0.0.0/8",
                "2:8: error: classes.own must be a list, such as [10.0.0.0/8] (did you mean [10.0.0.0/8]?)"
            ),
            (
                "classes:\n  own: [192.0.2.0/24, 10.1.0.0/8]",
                "2:23: error: classes.own has a wrong block: 10.1.0.0/8 goes on beyond its prefix: write 10.0.0.0/8 for the whole block, or 10.1.0.0 for the one address"
            ),
            (
                "classes:\n  Own: [192.0.2.0/24]",
                "2:3: error: classes: 'Own' is not a name for a class: lower-case letters, digits, _ and -"
            ),
            ("classes:\n  own: []", "2:3: error: classes.own has no blocks, such as [10.0.0.0/8]"),
            (
                "classes:\n  a: [10.0.0.0/8]\n  b: [10.0.0.0/8]",
                "3:3: error: classes.b: 10.0.0.0/8 is in class 'a' already"
            ),
            (
                "method: lifecycle\nwire: exact",
                "2:1: error: method lifecycle counts no packets: leave out wire exact"
            ),
            ("method: lifecycle\nwire: derived", nil),
            ("listen: 127.0.0.1:1", nil),
            ("listen: \"[::1]:1\"", nil),
            ("listen: off\nlisten_insecure: false", nil),
            // Options may complete it: the daemon checks both together.
            ("listen: 192.0.2.1:1", nil),
            ("listen: 192.0.2.1:1\nlisten_insecure: true", nil),
            (
                "listen: 192.0.2.1:1\nlisten_token_file: /t\nlisten_certificate_file: /c\nlisten_key_file: /k", nil
            ),
            ("listen_insecure: yes", "1:18: error: listen_insecure is 'yes', and must be one of false, true"),
            ("interval: 1s\ninterval: 2s", "2:1: error: 'interval' is in line 1 already: each key comes once"),
            ("keep_history: {day: 2d, day: 2d}", "1:25: error: 'day' is in line 1 already: each key comes once"),
            ("minute: 2d", "1:1: error: unknown key 'minute' (did you mean keep_history.minute?)"),
            ("[a]: b", "1:1: error: a key must be a word"),
            ("\"x\\e[2J\\n\": 1", "1:1: error: unknown key 'x\u{fffd}[2J\u{fffd}'; known: \(Self.keys)"),
            ("- a", "1:1: error: the file must have lines KEY: VALUE, with a blank after the colon"),
            ("interval:1s", "1:1: error: the file must have lines KEY: VALUE, with a blank after the colon"),
        ] as [(String, String?)]
    )
    func problems(text: String, line: String?) throws {
        #expect(try Written(text).lines() == (line.map { [$0] } ?? []))
    }

    @Test(
        "an address that other hosts reach needs a token and TLS, or the word for neither",
        arguments: [
            ("127.0.0.1:1", [], nil), ("[::1]:1", [], nil), ("off", [], nil),
            ("192.0.2.1:1", [], "listen_token_file and listen_certificate_file with listen_key_file"),
            ("0.0.0.0:1", ["token"], "give listen_certificate_file with listen_key_file, or"),
            ("[::]:1", ["certificate", "key"], "give listen_token_file, or"),
            ("[::ffff:127.0.0.1]:1", [], nil), ("[fe80::1]:1", [], "give listen_token_file and"),
            ("192.0.2.1:1", ["token", "certificate", "key"], nil), ("192.0.2.1:1", ["insecure"], nil),
            ("127.0.0.1:1", ["key"], "need each other"),
            ("192.0.2.1:1", ["certificate", "insecure"], "need each other"),
            ("127.0.0.1:1", ["admin"], "needs listen_certificate_file and"),
            ("127.0.0.1:1", ["admin", "certificate", "key"], nil),
            ("192.0.2.1:1", ["admin", "token", "certificate", "key"], nil),
            ("192.0.2.1:1", ["admin", "token", "insecure"], "needs listen_certificate_file and"),
            ("192.0.2.1:1", ["admin", "certificate", "key"], "give listen_token_file, or"),
        ] as [(String, Set<String>, String?)]
    )
    func listening(address: String, given: Set<String>, message: String?) throws {
        var configuration = Configuration()
        configuration.listen = try #require(ListenOption(argument: address)).address
        configuration.listenTokenFile = given.contains("token") ? "/t" : nil
        configuration.listenAdminTokenFile = given.contains("admin") ? "/a" : nil
        configuration.listenCertificateFile = given.contains("certificate") ? "/c" : nil
        configuration.listenKeyFile = given.contains("key") ? "/k" : nil
        configuration.listenInsecure = given.contains("insecure")
        if let message {
            #expect(
                configuration.conflict?.message.contains(message) == true,
                "\(configuration.conflict?.message ?? "")"
            )
            #expect(configuration.conflictOfOptions()?.contains("--listen") == true)
            #expect(configuration.conflictOfOptions()?.contains("listen_") == false)
        } else {
            #expect(configuration.conflict == nil)
        }
    }

    @Test("everything that is wrong is named, in the order of the file")
    func all() throws {
        let places = try Written(
            """
            a: 1
            wire: [x]
            classes: {b: [1, 2], C: [10.0.0.0/8]}
            wire: exact
            keep_history: {minute: 0s, d: 1}
            """
        ).lines().map { $0.split(separator: " ")[0] }
        #expect(places == ["1:1:", "2:7:", "3:15:", "3:18:", "3:22:", "4:1:", "5:24:", "5:28:"])
    }
}
