import ArgumentParser
import CommandOptions
import TrafficCapture
import TrafficConfiguration
import TrafficModel

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Says how this kernel would count, without counting.",
        discussion: """
            For each method that trafficd run tries, it loads the BPF programs, attaches them for a moment and removes \
            them. Prints the method that trafficd run would use without further options, what each method can't see \
            here, and why the others are refused. A running daemon is not disturbed.

            EXIT CODES
              0   an exact method is possible, or the one that was named
              1   only poll is left, or the method that was named is refused
              64  wrong usage
              77  the rights to count are missing

            EXAMPLES
              sudo trafficd check
              sudo trafficd check --method kprobe
            """
    )

    @Option(help: "Check only this method.")
    var method: MethodOption?

    @Option(
        help: ArgumentHelp("As --wire of trafficd run.", valueName: "derived|exact|audited")
    )
    var wire: WireCounting = .exact

    func run() throws {
        let findings: [MethodSelection.Finding]
        do throws(CaptureError) {
            findings = try MethodSelection.findings(of: self.method?.method, wire: self.wire)
        } catch {
            guard case .permission(let needs) = error else { throw StartFailure(code: 1, message: "\(error)") }
            throw StartFailure(code: 77, message: needs)
        }
        let possible = findings.filter { $0.refusal == nil }
        for finding in findings {
            let isUsed = self.method?.method == nil && finding.method == possible.first?.method
            let use = isUsed ? "trafficd run would use it" : "possible"
            print("\(finding.method.rawValue): \(finding.refusal.map { "refused: \($0)" } ?? use)")
            for spot in finding.blindSpots { print("  can't see: \(spot)") }
        }
        if self.method?.method == nil && possible.first?.method == .poll {
            print(MethodSelection.remedyForPolling)
            throw ExitCode(1)
        }
        if possible.isEmpty { throw ExitCode(1) }
    }
}
