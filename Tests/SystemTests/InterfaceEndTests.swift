import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// Interfaces that are gone before the daemon looks at them, beside what ip(8) says of them just before.
    @Suite(.needs("ip", "python3"))
    struct InterfaceEndTests {
        @Test("an interface that is made, used and removed between two looks counts to the last byte", .needsBPF)
        func shortLived() async throws {
            try await NetworkNamespace.with { namespace in
                // Prints what the interface counted each time, after its last packet.
                let script = """
                    import json, socket, subprocess
                    def ip(*words): return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
                    bytes_, packets = 0, 0
                    for turn in range(5):
                        ip("link", "add", "short0", "type", "veth", "peer", "name", "short1")
                        ip("addr", "add", "10.250.0.1/24", "dev", "short0")
                        for name in ["short0", "short1"]: ip("link", "set", name, "up")
                        ip("neigh", "add", "10.250.0.9", "lladdr", "02:00:00:00:00:01", "dev", "short0", "nud", "permanent")
                        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        for _ in range(200 + turn): sender.sendto(bytes(1000), ("10.250.0.9", 9))
                        # From here on it counts nothing more.
                        ip("link", "set", "short0", "down")
                        stats = json.loads(ip("-j", "-s", "link", "show", "short0"))[0]["stats64"]["tx"]
                        bytes_, packets = bytes_ + stats["bytes"], packets + stats["packets"]
                        ip("link", "delete", "short0")
                    print(bytes_, packets)
                    """
                let launcher = try namespace.launcher()
                try await withDaemon(arguments: ["--interval", "60"], launcher: launcher) { daemon in
                    // The first look is over.
                    _ = try await daemon.snapshot()
                    let said = try await Program.run(launcher.program, launcher.arguments + ["python3", "-c", script])
                    let numbers = String(decoding: said.output, as: UTF8.self).split(whereSeparator: \.isWhitespace)
                        .compactMap { UInt64($0) }
                    try #require(numbers.count == 2 && numbers[1] > 0, "\(said.error)")
                    let socket = daemon.directories.controlSocket.path
                    func counted(_ metric: String) async throws -> UInt64? {
                        let text = try await Tool.run("curl", ["-s", "--unix-socket", socket, "http://t/metrics"])
                            .output
                        let line = text.split(separator: "\n").first {
                            $0.hasPrefix(metric + "{") && $0.contains("\"short0\"") && $0.contains("\"transmit\"")
                        }
                        return line?.split(separator: " ").last.flatMap { Double($0) }.map { UInt64($0) }
                    }
                    let bytes = try await look(until: { $0 == numbers[0] }) {
                        try await counted("system_network_io_bytes_total")
                    }
                    #expect(bytes == numbers[0])
                    #expect(try await counted("system_network_packet_count_total") == numbers[1])
                }
            }
        }
    }
}
